// Vocabularies that contradict themselves, and kinds that are not known: a clear refusal each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/tiny_model.h"
#include "tests/text/text_testing.h"

namespace kvrelay::text {
namespace {

using ::testing::HasSubstr;

void ExpectRefused(const absl::StatusOr<std::unique_ptr<Tokenizer>>& tokenizer, absl::StatusCode code,
                   const std::string& words) {
  EXPECT_EQ(tokenizer.status().code(), code) << tokenizer.status();
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(words));
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

TEST(HostileVocabulary, SoundOneLoads) { EXPECT_TRUE(TestVocabulary().Load().ok()); }

TEST(HostileVocabulary, UnknownKinds) {
  TestVocabulary vocabulary;
  vocabulary.pre = "martian-bpe";
  ExpectRefused(vocabulary.Load(), kUnimplemented, "martian-bpe");
  testing::GgufWriter writer = TestVocabulary().Writer();
  writer.DropKey("tokenizer.ggml.pre");
  ExpectRefused(Load(writer), kUnimplemented, "tokenizer.ggml.pre");
  writer = TestVocabulary().Writer();
  writer.DropKey("tokenizer.ggml.model");
  writer.AddString("tokenizer.ggml.model", "rwkv");
  ExpectRefused(Load(writer), kUnimplemented, "rwkv");
}

TEST(HostileVocabulary, MissingKeys) {
  for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    testing::GgufWriter writer = TestVocabulary().Writer();
    writer.DropKey(key);
    ExpectRefused(Load(writer), kInvalid, key);
  }
}

TEST(HostileVocabulary, Duplicates) {
  TestVocabulary vocabulary;
  vocabulary.AddToken("hello", kNormal);
  ExpectRefused(vocabulary.Load(), kInvalid, "hello");
}

TEST(HostileVocabulary, NoTokens) {
  TestVocabulary vocabulary;
  vocabulary.tokens.clear();
  vocabulary.types.clear();
  vocabulary.merges.clear();
  ExpectRefused(vocabulary.Load(), kInvalid, "tokens");
}

TEST(HostileVocabulary, TokenTypes) {
  TestVocabulary vocabulary;
  vocabulary.types.pop_back();
  ExpectRefused(vocabulary.Load(), kInvalid, "token_type");
  vocabulary = TestVocabulary();
  vocabulary.types[5] = 7;
  ExpectRefused(vocabulary.Load(), kInvalid, "token_type[5] is 7");
  vocabulary.types[5] = -1;
  ExpectRefused(vocabulary.Load(), kInvalid, "token_type[5] is -1");
}

TEST(HostileVocabulary, AddedTokens) {
  TestVocabulary vocabulary;
  vocabulary.AddToken("", kControl);
  ExpectRefused(vocabulary.Load(), kInvalid, "empty");
  vocabulary = TestVocabulary();
  vocabulary.AddToken(std::string(2 << 20, 'x'), kUserDefined);
  ExpectRefused(vocabulary.Load(), kInvalid, "added tokens");
  vocabulary = TestVocabulary();
  vocabulary.AddToken("\xff\xfe", kNormal);
  ExpectRefused(vocabulary.Load(), kInvalid, "UTF-8");
}

TEST(HostileVocabulary, Merges) {
  const std::pair<std::string, std::string> cases[] = {
      {"he llo wo", "two tokens"}, {"hello", "two tokens"}, {"", "two tokens"}, {" he", "no token"},
      {"he ", "no token"},         {"zz he", "zz"},         {"he zz", "zz"},    {"he he", "hehe"},
  };
  for (const auto& [merge, words] : cases) {
    TestVocabulary vocabulary;
    vocabulary.merges.push_back(merge);
    ExpectRefused(vocabulary.Load(), kInvalid, words);
  }
}

// Otherwise plain text could become a control token through merges.
TEST(HostileVocabulary, MergesThatMakeControlTokens) {
  TestVocabulary vocabulary;
  vocabulary.AddToken("ha", kControl);
  vocabulary.merges.push_back("h a");
  ExpectRefused(vocabulary.Load(), kInvalid, "control token");
}

// A control token of one letter is not found in text that came from a message, and costs nothing else.
TEST(HostileVocabulary, ControlTokenOfOneLetter) {
  TestVocabulary vocabulary;
  vocabulary.tokens[testing::kTinyFirstByte + 'Q'] = "QQQ";
  const int32_t q = vocabulary.AddToken("Q", kControl);
  vocabulary.chat_template = "{{ messages[0].content }}";
  const auto tokenizer = vocabulary.MustLoad();
  EXPECT_EQ(tokenizer->EncodeText("aQ").value().back(), q);
  EXPECT_TRUE(tokenizer->EncodeChat(Messages({{"user", "a"}})).ok());
  EXPECT_EQ(tokenizer->EncodeChat(Messages({{"user", "aQ"}})).status().code(), kInvalid);
}

TEST(HostileVocabulary, SpecialIdsOutside) {
  const int size = TestVocabulary().tokens.size();
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eot_token_id"}) {
    testing::GgufWriter writer = TestVocabulary().Writer();
    if (std::string(key).find("eot") == std::string::npos) writer.DropKey(key);
    writer.AddUint32(key, size);
    ExpectRefused(Load(writer), kInvalid, key);
  }
  testing::GgufWriter writer = TestVocabulary().Writer();
  writer.DropKey("tokenizer.ggml.bos_token_id");
  writer.AddBool("tokenizer.ggml.add_bos_token", true);
  ExpectRefused(Load(writer), kInvalid, "add_bos_token");
}

TEST(HostileVocabulary, ValuesOfAnotherType) {
  testing::GgufWriter writer = TestVocabulary().Writer();
  writer.DropKey("tokenizer.ggml.tokens");
  writer.AddUint32("tokenizer.ggml.tokens", 5);
  ExpectRefused(Load(writer), kInvalid, "tokenizer.ggml.tokens");
  writer = TestVocabulary().Writer();
  writer.AddUint32("tokenizer.chat_template", 5);
  ExpectRefused(Load(writer), kInvalid, "tokenizer.chat_template");
}

TEST(HostileVocabulary, EndSetHasNoDuplicatesAndOnlyControlNames) {
  TestVocabulary vocabulary;
  vocabulary.AddToken("</s>", kNormal);
  const int32_t eot = vocabulary.AddToken("<|eot_id|>", kControl);
  testing::GgufWriter writer = vocabulary.Writer();
  writer.AddUint32("tokenizer.ggml.eot_token_id", eot);
  const auto tokenizer = Load(writer);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->eos_ids(), ::testing::ElementsAre(2, eot, 0));
}

}  // namespace
}  // namespace kvrelay::text
