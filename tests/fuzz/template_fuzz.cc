// A chat template that a model file might have, and a conversation for it:
// "TEMPLATE\n---\nROLE\n---\nCONTENT\n---\n..." It is refused with words of our own, or it gives ids; and no message
// makes a control token.
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/text/tokenizer.h"
#include "tests/fuzz/input.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/memory_file.h"
#include "tests/testing/tiny_model.h"

namespace kvrelay::fuzz {
namespace {

constexpr std::string_view kMark = "\n---\n";

absl::StatusOr<std::unique_ptr<text::Tokenizer>> WithTemplate(const std::string& chat_template) {
  static const auto& small = *new testing::GgufWriter([] {
    testing::GgufWriter writer =
        testing::TinyModel({.layers = 1, .width = 16, .heads = 1, .kv_heads = 1, .ffn_width = 16});
    writer.DropKey("tokenizer.chat_template");
    return writer;
  }());
  testing::GgufWriter writer = small;
  writer.AddString("tokenizer.chat_template", chat_template);
  const testing::MemoryFile memory(writer.Bytes());
  const auto file = model_file::ModelFile::Open(memory.path());
  KV_CHECK(file.ok(), "any text may be a value");
  return text::Tokenizer::FromFile(**file);
}

std::vector<text::ChatMessage> MessagesOf(std::string_view text) {
  std::vector<text::ChatMessage> messages;
  while (!text.empty()) {
    const std::string_view role = TakeUntil(kMark, text);
    messages.push_back({std::string(role), std::string(TakeUntil(kMark, text))});
  }
  return messages;
}

// All control tokens of this model begin with "<|": a template that cannot write "<" itself makes none.
bool CannotWriteControl(const std::string& chat_template) {
  for (const char* way : {"<", "\\", "_token", "%", "format", "chr", "lt"})
    if (chat_template.find(way) != std::string::npos) return false;
  return true;
}

// False if the template took too much memory: that leaves a thread behind, so the input shall not be varied further.
bool Run(std::string_view text) {
  const std::string chat_template(TakeUntil(kMark, text));
  const auto tokenizer = WithTemplate(chat_template);
  KV_CHECK(tokenizer.ok(), "a model with a bad template still serves text");
  const auto ids = (*tokenizer)->EncodeChat(MessagesOf(text));
  if (!ids.ok()) {
    KV_CHECK(absl::IsInvalidArgument(ids.status()) || absl::IsFailedPrecondition(ids.status()),
             "bad messages are the client's fault, a bad template is the file's");
    return ids.status().message().find("memory") == absl::string_view::npos;
  }
  for (const int32_t id : *ids) {
    KV_CHECK(id >= 0 && id < (*tokenizer)->vocabulary_size(), "an id is in the vocabulary");
    KV_CHECK(!(*tokenizer)->IsControl(id) || !CannotWriteControl(chat_template), "no message makes a control token");
  }
  return true;
}

}  // namespace
}  // namespace kvrelay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return kvrelay::fuzz::Run(std::string_view(reinterpret_cast<const char*>(data), size)) ? 0 : -1;
}
