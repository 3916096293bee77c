// The tiny model that other tests stand on: the keys and tensors of a real file, the same bytes for the same options.
#include "tests/testing/tiny_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "common/model_file/model_file.h"
#include "tests/testing/encode_weights.h"
#include "tests/testing/memory_file.h"

namespace kvrelay::testing {
namespace {

using model_file::ModelFile;
using model_file::TensorType;
using ::testing::ElementsAre;

std::unique_ptr<ModelFile> Open(const TinyModelOptions& options) {
  const MemoryFile memory(TinyModelBytes(options));
  auto file = ModelFile::Open(memory.path());
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *std::move(file) : nullptr;
}

TEST(TinyModel, SameOptionsSameBytes) {
  EXPECT_EQ(TinyModelBytes({}), TinyModelBytes({}));
  EXPECT_NE(TinyModelBytes({.seed = 1}), TinyModelBytes({.seed = 2}));
}

TEST(TinyModel, EveryWeightType) {
  for (const TensorType type : kvrelay::testing::kAllTypes) {
    const TinyModelOptions options = kvrelay::testing::TinyModelOf(type);
    const uint64_t width = options.width, ffn_width = options.ffn_width;
    const std::unique_ptr<ModelFile> file = Open(options);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->tensors().size(), 2u + 2 * 9);
    EXPECT_EQ((*file->Find("blk.1.attn_k.weight"))->type, type);
    EXPECT_THAT((*file->Find("blk.1.attn_k.weight"))->dims, ElementsAre(width, width / 2));
    EXPECT_THAT((*file->Find("blk.0.ffn_down.weight"))->dims, ElementsAre(ffn_width, width));
    EXPECT_EQ((*file->Find("token_embd.weight"))->type, type == TensorType::kQ4_1 ? TensorType::kQ8_0 : type);
    EXPECT_FALSE(file->Find("output.weight").ok());
  }
}

TEST(TinyModel, UntiedHeadAndOddHeads) {
  const std::unique_ptr<ModelFile> file = Open({.layers = 1, .head_dim = 32, .tied_head = false});
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(file->Find("output.weight").ok());
  EXPECT_EQ(*file->GetUint("llama.attention.key_length"), 32u);
  EXPECT_THAT((*file->Find("blk.0.attn_output.weight"))->dims, ElementsAre(128, 64));
}

TEST(TinyModel, VocabularyIsConsistent) {
  const TinyVocabulary& vocabulary = GetTinyVocabulary();
  const std::set<std::string> tokens(vocabulary.tokens.begin(), vocabulary.tokens.end());
  EXPECT_EQ(tokens.size(), vocabulary.tokens.size()) << "no token twice";
  EXPECT_EQ(vocabulary.tokens.size(), kTinyFirstByte + 256 + vocabulary.merges.size());
  EXPECT_EQ(vocabulary.tokens[kTinyFirstByte + 'A'], "A");
  EXPECT_EQ(vocabulary.tokens[kTinyFirstByte + ' '], "\u0120");
  for (const std::string& merge : vocabulary.merges) {
    const size_t space = merge.find(' ');
    ASSERT_NE(space, std::string::npos);
    EXPECT_TRUE(tokens.contains(merge.substr(0, space))) << merge;
    EXPECT_TRUE(tokens.contains(merge.substr(space + 1))) << merge;
  }
}

// Every key of the tiny model that shapes the network or the text is one that the default model has too.
TEST(TinyModel, KeysOfTheRealFile) {
  const char* path = std::getenv("KVRELAY_MODEL");
  ASSERT_NE(path, nullptr) << "KVRELAY_MODEL must name SmolLM2-135M-Instruct.Q4_1.gguf";
  const auto real = ModelFile::Open(path);
  ASSERT_TRUE(real.ok()) << real.status();
  const std::unique_ptr<ModelFile> tiny = Open({});
  for (const char* key : {"general.architecture",
                          "general.name",
                          "llama.block_count",
                          "llama.context_length",
                          "llama.embedding_length",
                          "llama.feed_forward_length",
                          "llama.attention.head_count",
                          "llama.attention.head_count_kv",
                          "llama.rope.freq_base",
                          "llama.attention.layer_norm_rms_epsilon",
                          "llama.vocab_size",
                          "llama.rope.dimension_count",
                          "tokenizer.ggml.add_space_prefix",
                          "tokenizer.ggml.add_bos_token",
                          "tokenizer.ggml.model",
                          "tokenizer.ggml.pre",
                          "tokenizer.ggml.tokens",
                          "tokenizer.ggml.token_type",
                          "tokenizer.ggml.merges",
                          "tokenizer.ggml.bos_token_id",
                          "tokenizer.ggml.eos_token_id",
                          "tokenizer.ggml.unknown_token_id",
                          "tokenizer.ggml.padding_token_id",
                          "tokenizer.chat_template",
                          "general.quantization_version"}) {
    EXPECT_TRUE((*real)->Has(key)) << key;
    EXPECT_TRUE(tiny->Has(key)) << key;
  }
}

}  // namespace
}  // namespace kvrelay::testing
