// Any bytes as a model file: the reader must refuse or read them, and everything it offers must then be usable. What
// the reader takes is then loaded as a model, if it is small.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "common/model/model.h"
#include "common/model_file/model_file.h"
#include "tests/testing/memory_file.h"

namespace kvrelay::fuzz {
namespace {

using model_file::ModelFile;

void CheckFault(const absl::Status& status) {
  KV_CHECK(absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) || absl::IsNotFound(status),
           "a bad file is the file's fault");
  KV_CHECK(status.message().size() < 2000, "a file does not choose the size of our messages");
}

void ReadMetadata(const ModelFile& file) {
  for (const char* key :
       {"general.alignment", "general.architecture", "tokenizer.ggml.tokens", "tokenizer.ggml.scores"}) {
    (void)file.GetUint(key);
    (void)file.GetString(key);
    (void)file.GetStrings(key);
    (void)file.GetInts(key);
    (void)file.GetFloats(key);
  }
}

void ReadTensors(const ModelFile& file) {
  for (const model_file::TensorInfo& tensor : file.tensors()) {
    std::array<std::byte, 64> bytes;
    const size_t part = std::min<uint64_t>(tensor.bytes, bytes.size());
    const auto status = file.Read(tensor, tensor.bytes - part, absl::MakeSpan(bytes.data(), part));
    KV_CHECK(status.ok(), "an accepted tensor lies inside the file");
    KV_CHECK(*file.Find(tensor.name) == &tensor, "an accepted tensor is found by its name");
  }
}

void LoadModel(const ModelFile& file) {
  const auto config = model::ReadModelConfig(file);
  if (!config.ok()) return CheckFault(config.status());
  KV_CHECK(config->heads % config->kv_heads == 0 && config->rope_dims <= config->head_dim, "shapes agree");
  if (int64_t{config->context_length} * config->rope_dims > (1 << 16)) return;  // sound, but slow to prepare
  const auto model = model::Model::Load(file, kernels::MatmulBackend::kNative, kernels::Isa::kScalar);
  if (!model.ok()) CheckFault(model.status());
}

void Run(std::string_view bytes) {
  const testing::MemoryFile memory(bytes);
  const auto file = ModelFile::Open(memory.path());
  if (!file.ok()) return CheckFault(file.status());
  ReadMetadata(**file);
  ReadTensors(**file);
  LoadModel(**file);
}

}  // namespace
}  // namespace kvrelay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvrelay::fuzz::Run(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
