#include "common/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/testing/tiny_model.h"
#include "tests/text/text_testing.h"

namespace kvrelay::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kMiB = 1 << 20;

std::vector<int32_t> Encode(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.EncodeText(text);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(std::vector<int32_t>{});
}

// The tokens of `text`, each as the bytes it stands for.
std::vector<std::string> Pieces(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> pieces;
  for (const int32_t id : Encode(tokenizer, text)) pieces.push_back(tokenizer.TokenBytes(id, true));
  return pieces;
}

TEST(Tokenizer, FactsOfTheDefaultModel) {
  const Tokenizer& tokenizer = RealTokenizer();
  EXPECT_EQ(tokenizer.vocabulary_size(), 49152);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_FALSE(tokenizer.adds_bos());  // trap T4: <|im_start|> as BOS would open a turn that nobody wrote
  EXPECT_TRUE(tokenizer.has_chat_template());
  EXPECT_THAT(tokenizer.eos_ids(), ElementsAre(2, 0));  // trap T9: a set, from the file
  int controls = 0;
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) controls += tokenizer.IsControl(id);
  EXPECT_EQ(controls, 17);
  EXPECT_TRUE(tokenizer.IsControl(16));
  EXPECT_FALSE(tokenizer.IsControl(17));
}

// Trap T1: each digit alone, before words are cut.
TEST(Tokenizer, SmollmCutsEveryDigit) {
  EXPECT_THAT(Pieces(RealTokenizer(), " 12"), ElementsAre(" ", "1", "2"));
  EXPECT_THAT(Pieces(RealTokenizer(), "the 1st"), ElementsAre("the", " ", "1", "st"));
}

TEST(Tokenizer, PatternsDifferByPreTokenizer) {
  TestVocabulary vocabulary;
  for (const auto& [text, left, right] :
       std::vector<std::tuple<const char*, const char*, const char*>>{{"12", "1", "2"},
                                                                      {"123", "12", "3"},
                                                                      {"1234", "123", "4"},
                                                                      {"\u01201", "\u0120", "1"},
                                                                      {"!\u010a", "!", "\u010a"}}) {
    vocabulary.AddToken(text, kNormal);
    vocabulary.merges.push_back(std::string(left) + " " + right);
  }
  const std::string text = " 1234!\n";
  EXPECT_THAT(Pieces(*vocabulary.MustLoad(), text), ElementsAre(" ", "1", "2", "3", "4", "!", "\n"));
  vocabulary.pre = "gpt-2";
  EXPECT_THAT(Pieces(*vocabulary.MustLoad(), text), ElementsAre(" ", "1234", "!", "\n"));
  vocabulary.pre = "llama-bpe";
  EXPECT_THAT(Pieces(*vocabulary.MustLoad(), text), ElementsAre("<|im_start|>", " ", "123", "4", "!\n"));
  vocabulary.pre = "qwen2";
  EXPECT_THAT(Pieces(*vocabulary.MustLoad(), text), ElementsAre(" ", "1", "2", "3", "4", "!\n"));
}

TEST(Tokenizer, Qwen2ComposesCharactersFirst) {
  TestVocabulary vocabulary;
  EXPECT_EQ(Encode(*vocabulary.MustLoad(), "e\u0301").size(), 3u);
  vocabulary.pre = "qwen2";
  EXPECT_EQ(Encode(*vocabulary.MustLoad(), "e\u0301"), Encode(*vocabulary.MustLoad(), "\u00e9"));
}

// Trap T2: a whole word that is a token is taken without merging for Llama 3 files, and only for them.
TEST(Tokenizer, IgnoresMergesOnlyForLlama3) {
  TestVocabulary vocabulary;
  const int32_t word = vocabulary.AddToken("\u0120xyz", kNormal);
  EXPECT_THAT(Pieces(*vocabulary.MustLoad(), " xyz"), ElementsAre(" ", "x", "y", "z"));
  vocabulary.pre = "llama-bpe";
  EXPECT_THAT(Encode(*vocabulary.MustLoad(), " xyz"), ElementsAre(1, word));
}

// Trap T3: added tokens that are not control tokens are text, wherever they stand.
TEST(Tokenizer, UserDefinedTokensAreTextAndRecognisedEverywhere) {
  TestVocabulary vocabulary;
  const int32_t think = vocabulary.AddToken("<think>", kUserDefined);
  const int32_t longer = vocabulary.AddToken("<think>\n", kUserDefined);
  vocabulary.chat_template = "{{ messages[0].content }}<|im_end|>";
  const auto tokenizer = vocabulary.MustLoad();
  EXPECT_THAT(Encode(*tokenizer, "<think>"), ElementsAre(think));
  EXPECT_THAT(Encode(*tokenizer, "<think>\n<think>"), ElementsAre(longer, think));
  EXPECT_FALSE(tokenizer->IsControl(think));
  EXPECT_EQ(tokenizer->TokenBytes(think, false), "<think>");
  const auto chat = tokenizer->EncodeChat(Messages({{"user", "<think>"}}));
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_THAT(*chat, ElementsAre(think, testing::kTinyImEnd));
}

// Trap T4: BOS once, and only where the model says so.
TEST(Tokenizer, BosFollowsTheFile) {
  TestVocabulary vocabulary;
  vocabulary.chat_template = "{{ bos_token }}{{ messages[0].content }}";
  testing::GgufWriter writer = vocabulary.Writer();
  writer.AddBool("tokenizer.ggml.add_bos_token", true);
  const auto tokenizer = Load(writer);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_TRUE((*tokenizer)->adds_bos());
  EXPECT_THAT(Encode(**tokenizer, ""), ElementsAre(1));
  EXPECT_EQ(Encode(**tokenizer, "a").size(), 2u);
  const auto chat = (*tokenizer)->EncodeChat(Messages({{"user", "a"}}));
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->size(), 2u);  // the template wrote it; no second one
  EXPECT_EQ(chat->front(), 1);
}

// Trap T6.
TEST(Tokenizer, BrokenUtf8IsRefused) {
  const auto ids = RealTokenizer().EncodeText("ok \xff");
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ids.status().message()), HasSubstr("offset 3"));
  EXPECT_EQ(RealTokenizer().EncodeChat(Messages({{"user", "\xc3"}})).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RealTokenizer().EncodeChat(Messages({{"\x80", ""}})).status().code(), absl::StatusCode::kInvalidArgument);
}

// Trap T7: long runs neither crash nor take quadratic time.
TEST(Tokenizer, LongRunsComeBackWhole) {
  for (const std::string unit : {"a", " ", "\n", "7", "!", "\u00a0", "\uac00", " a", "\r\n", "'s", "<|im_end"}) {
    std::string text;
    while (text.size() + unit.size() <= kMiB) text += unit;
    const std::vector<int32_t> ids = Encode(RealTokenizer(), text);
    EXPECT_TRUE(RealTokenizer().Decode(ids, true) == text) << "unit \"" << unit << "\"";
  }
  for (const char* pre : {"llama-bpe", "qwen2"}) {
    TestVocabulary vocabulary;
    vocabulary.pre = pre;
    const auto tokenizer = vocabulary.MustLoad();
    for (const std::string unit : {"a", " ", "\n", " \n"}) {
      std::string text;
      while (text.size() + unit.size() <= kMiB - 1) text += unit;
      text += "x";
      EXPECT_TRUE(tokenizer->Decode(Encode(*tokenizer, text), false) == text) << pre << " unit \"" << unit << "\"";
    }
  }
}

TEST(Tokenizer, TextOverTheLimitIsRefused) {
  const std::string text(kMiB + 1, 'a');
  EXPECT_EQ(RealTokenizer().EncodeText(text).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RealTokenizer().EncodeChat(Messages({{"user", text}})).status().code(), absl::StatusCode::kInvalidArgument);
  const std::vector<ChatMessage> many(4097, {"user", ""});
  EXPECT_EQ(RealTokenizer().EncodeChat(many).status().code(), absl::StatusCode::kInvalidArgument);
}

// Trap S4: control tokens have no text of their own.
TEST(Tokenizer, ControlTokensDecodeToNothing) {
  const std::vector<int32_t> ids = Encode(RealTokenizer(), "a<|im_end|>b");
  EXPECT_EQ(RealTokenizer().Decode(ids, false), "ab");
  EXPECT_EQ(RealTokenizer().Decode(ids, true), "a<|im_end|>b");
  EXPECT_EQ(RealTokenizer().TokenBytes(2, false), "");
  EXPECT_EQ(RealTokenizer().TokenBytes(2, true), "<|im_end|>");
}

// A byte that the vocabulary lacks is left out, as Hugging Face does; it never becomes the unknown token, a control
// token.
TEST(Tokenizer, MissingByteIsLeftOut) {
  TestVocabulary vocabulary;
  vocabulary.tokens[testing::kTinyFirstByte + 'Q'] = "QQQ";
  EXPECT_THAT(Pieces(*vocabulary.MustLoad(), "aQb"), ElementsAre("a", "b"));
}

TEST(Tokenizer, RandomTextComesBack) {
  TestVocabulary vocabulary;
  const auto tiny = vocabulary.MustLoad();
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (int i = random() % 60; i > 0; --i) bytes += static_cast<char>(random());
    const std::string text = ReplaceInvalidUtf8(bytes);
    EXPECT_EQ(tiny->Decode(Encode(*tiny, text), true), text);
  }
}

TEST(Tokenizer, ThreadsGetTheSameIds) {
  const std::string text = "Once upon a time, 3 threads met 안녕 🙂 <|im_end|>";
  const std::vector<ChatMessage> messages = {{"user", text}};
  const std::vector<int32_t> ids = Encode(RealTokenizer(), text);
  const std::vector<int32_t> chat = RealTokenizer().EncodeChat(messages).value();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        EXPECT_EQ(Encode(RealTokenizer(), text), ids);
        const auto again = RealTokenizer().EncodeChat(messages);
        EXPECT_TRUE(again.ok() && *again == chat);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kvrelay::text
