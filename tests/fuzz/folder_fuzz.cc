// Any bytes as the texts of a model folder: config.json, tokenizer.json and the header of model.safetensors, with lines
// "---" between them; the data behind the header is 64 KiB of zeros. The reader must refuse or read them; what it takes
// is then loaded as a model, if it is small, and as a tokenizer, which reads a text.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/model/model.h"
#include "common/model_file/model_file.h"
#include "common/text/tokenizer.h"

namespace kvrelay::fuzz {
namespace {

constexpr size_t kDataBytes = 64 << 10;

void CheckFault(const absl::Status& status) {
  KV_CHECK(absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) || absl::IsNotFound(status),
           "a bad folder is the folder's fault");
  KV_CHECK(status.message().size() < 2000, "a folder does not choose the size of our messages");
}

std::string Take(std::string_view& text) {
  constexpr std::string_view kLine = "\n---\n";
  const size_t end = text.find(kLine);
  const std::string part(text.substr(0, end));
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + kLine.size());
  return part;
}

// A folder in memory, written anew for each input, gone when the program ends.
struct Folder {
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  const std::filesystem::path path = "/dev/shm/kvrelay_folder_fuzz_" + std::to_string(getpid());
};
const std::filesystem::path& Root() {
  static const Folder folder;
  return folder.path;
}

void Write(const char* name, const std::string& content) { std::ofstream(Root() / name, std::ios::binary) << content; }

void Load(const model_file::ModelFile& file) {
  const auto tokenizer = text::Tokenizer::FromFile(file);
  if (!tokenizer.ok()) CheckFault(tokenizer.status());
  if (tokenizer.ok()) (void)(*tokenizer)->EncodeText("The <s> text\n 12\u00e9");
  const auto config = model::ReadModelConfig(file);
  if (!config.ok()) return CheckFault(config.status());
  if (int64_t{config->context_length} * config->rope_dims > (1 << 16)) return;  // sound, but slow to prepare
  const auto model = model::Model::Load(file, kernels::MatmulBackend::kNative, kernels::Isa::kScalar);
  if (!model.ok()) CheckFault(model.status());
}

void Run(std::string_view bytes) {
  Write("config.json", Take(bytes));
  Write("tokenizer.json", Take(bytes));
  const uint64_t size = bytes.size();
  Write("model.safetensors", std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + std::string(bytes) +
                                 std::string(kDataBytes, '\0'));
  const auto file = model_file::ModelFile::Open(Root().string());
  if (!file.ok()) return CheckFault(file.status());
  Load(**file);
}

}  // namespace
}  // namespace kvrelay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvrelay::fuzz::Run(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
