#include "tests/text/text_testing.h"

#include <cstdio>
#include <cstdlib>

#include "tests/testing/memory_file.h"
#include "tests/testing/tiny_model.h"

namespace kvrelay::text {
namespace {

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

}  // namespace

const Tokenizer& RealTokenizer() {
  static const Tokenizer* const tokenizer = [] {
    const char* path = std::getenv("KVRELAY_MODEL");
    if (path == nullptr) Die("KVRELAY_MODEL must name SmolLM2-135M-Instruct.Q4_1.gguf; ./dev test sets it");
    auto file = model_file::ModelFile::Open(path);
    if (!file.ok()) Die(file.status().ToString());
    auto loaded = Tokenizer::FromFile(**file);
    if (!loaded.ok()) Die(loaded.status().ToString());
    return loaded->release();
  }();
  return *tokenizer;
}

TestVocabulary::TestVocabulary() {
  const testing::TinyVocabulary& tiny = testing::GetTinyVocabulary();
  tokens = tiny.tokens;
  merges = tiny.merges;
  types.assign(tokens.size(), kNormal);
  for (int id = 0; id < testing::kTinyFirstByte; ++id) types[id] = kControl;
}

int32_t TestVocabulary::AddToken(const std::string& text, TokenType type) {
  tokens.push_back(text);
  types.push_back(type);
  return static_cast<int32_t>(tokens.size()) - 1;
}

testing::GgufWriter TestVocabulary::Writer() const {
  testing::GgufWriter writer;
  writer.AddString("tokenizer.ggml.model", "gpt2");
  writer.AddString("tokenizer.ggml.pre", pre);
  writer.AddStrings("tokenizer.ggml.tokens", tokens);
  writer.AddArray("tokenizer.ggml.token_type", model_file::ValueType::kInt32, types);
  writer.AddStrings("tokenizer.ggml.merges", merges);
  writer.AddUint32("tokenizer.ggml.bos_token_id", testing::kTinyImStart);
  writer.AddUint32("tokenizer.ggml.eos_token_id", testing::kTinyImEnd);
  if (!chat_template.empty()) writer.AddString("tokenizer.chat_template", chat_template);
  return writer;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> TestVocabulary::Load() const { return text::Load(Writer()); }

std::unique_ptr<Tokenizer> TestVocabulary::MustLoad() const {
  auto tokenizer = Load();
  if (!tokenizer.ok()) Die(tokenizer.status().ToString());
  return *std::move(tokenizer);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const testing::GgufWriter& writer) {
  const testing::MemoryFile memory(writer.Bytes());
  auto file = model_file::ModelFile::Open(memory.path());
  if (!file.ok()) return file.status();
  return Tokenizer::FromFile(**file);
}

}  // namespace kvrelay::text
