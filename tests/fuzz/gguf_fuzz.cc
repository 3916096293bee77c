// Any bytes as a GGUF file: the reader must refuse or read them, and everything it offers must then be usable.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "common/model_file/gguf.h"
#include "tests/testing/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using kvrelay::model_file::GgufFile;
  const kvrelay::testing::MemoryFile memory(std::string_view(reinterpret_cast<const char*>(data), size));
  const auto file = GgufFile::Open(memory.path());
  if (!file.ok()) return 0;
  for (const char* key :
       {"general.alignment", "general.architecture", "tokenizer.ggml.tokens", "tokenizer.ggml.scores"}) {
    (void)(*file)->GetUint(key);
    (void)(*file)->GetString(key);
    (void)(*file)->GetStrings(key);
    (void)(*file)->GetInts(key);
    (void)(*file)->GetFloats(key);
  }
  for (const auto& tensor : (*file)->tensors()) {
    std::array<std::byte, 64> bytes;
    const size_t part = std::min<uint64_t>(tensor.bytes, bytes.size());
    const auto status = (*file)->Read(tensor, tensor.bytes - part, absl::MakeSpan(bytes.data(), part));
    KV_CHECK(status.ok(), "an accepted tensor lies inside the file");
    KV_CHECK(*(*file)->Find(tensor.name) == &tensor, "an accepted tensor is found by its name");
  }
  return 0;
}
