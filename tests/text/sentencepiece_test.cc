// SentencePiece vocabularies: merges by score, bytes as tokens, spaces made visible; and models with more embeddings
// than tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_format.h"
#include "tests/text/text_testing.h"

namespace kvrelay::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kUnk = 0, kBos = 1, kEos = 2, kFirstByte = 3, kFirstPiece = 259;

// "<unk>", "<s>", "</s>", the bytes, then pieces with scores.
struct Pieces {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {kUnknown, kControl, kControl};
  std::vector<float> scores = {0, 0, 0};
  bool space_prefix = true;

  explicit Pieces(const std::vector<std::pair<std::string, float>>& pieces) {
    for (int byte = 0; byte < 256; ++byte) Add(absl::StrFormat("<0x%02X>", byte), 0, 6);
    for (const auto& [piece, score] : pieces) Add(piece, score, kNormal);
  }
  void Add(const std::string& token, float score, int32_t type) {
    tokens.push_back(token);
    types.push_back(type);
    scores.push_back(score);
  }
  testing::GgufWriter Writer() const {
    testing::GgufWriter writer;
    writer.AddString("tokenizer.ggml.model", "llama");
    writer.AddStrings("tokenizer.ggml.tokens", tokens);
    writer.AddArray("tokenizer.ggml.token_type", model_file::ValueType::kInt32, types);
    writer.AddArray("tokenizer.ggml.scores", model_file::ValueType::kFloat32, scores);
    writer.AddUint32("tokenizer.ggml.bos_token_id", kBos);
    writer.AddUint32("tokenizer.ggml.eos_token_id", kEos);
    writer.AddBool("tokenizer.ggml.add_space_prefix", space_prefix);
    return writer;
  }
};

// Letters and the space are worst: they come from no merge.
Pieces Small() {
  return Pieces({{"\u2581", -9}, {"a", -9}, {"b", -9}, {"c", -9}, {"bc", -1}, {"ab", -2}, {"\u2581a", -3}});
}

std::unique_ptr<Tokenizer> MustLoad(const testing::GgufWriter& writer) {
  auto tokenizer = Load(writer);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

TEST(SentencePiece, TheBestScoreMergesFirst) {
  const auto tokenizer = MustLoad(Small().Writer());
  const int space = kFirstPiece, bc = kFirstPiece + 4, ab = kFirstPiece + 5, space_a = kFirstPiece + 6;
  EXPECT_THAT(*tokenizer->EncodeText("abc"), ElementsAre(kBos, space_a, bc)) << "bc before ab";
  EXPECT_THAT(*tokenizer->EncodeText(" ab"), ElementsAre(kBos, space, space, ab)) << "a space is put before one, too";
  EXPECT_THAT(*tokenizer->EncodeText("a</s>a"), ElementsAre(kBos, space_a, kEos, space_a)) << "and after added tokens";
  EXPECT_THAT(*tokenizer->EncodeText(""), ElementsAre(kBos));
  Pieces pieces = Small();
  pieces.space_prefix = false;
  EXPECT_THAT(*MustLoad(pieces.Writer())->EncodeText("abc"), ElementsAre(kBos, kFirstPiece + 1, bc));
}

TEST(SentencePiece, WhatNoPieceCoversIsBytes) {
  const auto tokenizer = MustLoad(Small().Writer());
  const auto ids = *tokenizer->EncodeText("\u00e9<0x0A>");
  EXPECT_THAT(std::vector<int32_t>(ids.begin(), ids.begin() + 4),
              ElementsAre(kBos, kFirstPiece, kFirstByte + 0xc3, kFirstByte + 0xa9));
  EXPECT_EQ(tokenizer->Decode(ids, false), " \u00e9<0x0A>") << "text that spells a byte token is text";
  EXPECT_EQ(tokenizer->TokenBytes(kFirstByte + 10, false), "\n");
  EXPECT_EQ(tokenizer->TokenBytes(kFirstPiece + 6, false), " a");
  EXPECT_TRUE(tokenizer->IsControl(kUnk));
}

TEST(SentencePiece, RefusesWhatItCannotServe) {
  const auto refused = [](const testing::GgufWriter& writer, absl::StatusCode code, const std::string& words) {
    const auto tokenizer = Load(writer);
    EXPECT_EQ(tokenizer.status().code(), code) << tokenizer.status();
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(words));
  };
  Pieces pieces = Small();
  pieces.tokens[kFirstByte + 0x41] = "x";
  refused(pieces.Writer(), absl::StatusCode::kUnimplemented, "<0x41>");
  pieces = Small();
  pieces.scores.pop_back();
  refused(pieces.Writer(), absl::StatusCode::kInvalidArgument, "tokenizer.ggml.scores has 265 entries for 266");
  pieces = Small();
  pieces.scores.back() = std::nanf("");
  refused(pieces.Writer(), absl::StatusCode::kInvalidArgument, "tokenizer.ggml.scores[265]");
  pieces = Small();
  pieces.Add(std::string(600, 'a'), -1, kNormal);
  refused(pieces.Writer(), absl::StatusCode::kInvalidArgument, "600 bytes");
  testing::GgufWriter writer = Small().Writer();
  writer.DropKey("tokenizer.ggml.scores");
  refused(writer, absl::StatusCode::kInvalidArgument, "tokenizer.ggml.scores");
  writer = Small().Writer();
  writer.AddBool("tokenizer.ggml.remove_extra_whitespaces", true);
  refused(writer, absl::StatusCode::kUnimplemented, "remove_extra_whitespaces");
}

TEST(PaddedVocabulary, EveryEmbeddingHasAToken) {
  testing::GgufWriter writer = TestVocabulary().Writer();
  const uint64_t tokens = TestVocabulary().tokens.size();
  const auto add_embedding = [](testing::GgufWriter& to, uint64_t rows) {
    to.AddTensor("token_embd.weight", model_file::TensorType::kF32, {1, rows}, std::string(rows * sizeof(float), '\0'));
  };
  add_embedding(writer, tokens + 5);
  const auto tokenizer = MustLoad(writer);
  ASSERT_EQ(tokenizer->vocabulary_size(), static_cast<int>(tokens) + 5);
  EXPECT_FALSE(tokenizer->IsControl(static_cast<int>(tokens) + 4));
  EXPECT_EQ(*tokenizer->EncodeText("hello"), *TestVocabulary().MustLoad()->EncodeText("hello"));
  const std::string name = tokenizer->TokenBytes(static_cast<int>(tokens) + 4, false);
  const std::vector<int32_t> ids = *tokenizer->EncodeText(name);
  for (const int32_t id : ids) EXPECT_LT(id, static_cast<int>(tokens)) << "no text becomes it";
  writer = TestVocabulary().Writer();
  add_embedding(writer, tokens - 1);
  EXPECT_EQ(Load(writer).status().code(), absl::StatusCode::kInvalidArgument) << "a token without an embedding";
}

}  // namespace
}  // namespace kvrelay::text
