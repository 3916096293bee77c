#include "common/text/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "absl/strings/str_cat.h"
#include "tests/text/text_testing.h"

namespace kvrelay::text {
namespace {

using ::testing::HasSubstr;
using Language = GrammarLanguage;

class GrammarTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto file = model_file::ModelFile::Open(std::getenv("KVRELAY_MODEL"));
    ASSERT_TRUE(file.ok()) << file.status();
    auto grammars = Grammars::FromFile(**file);
    ASSERT_TRUE(grammars.ok()) << grammars.status();
    grammars_ = grammars->release();
  }
  static void TearDownTestSuite() { delete std::exchange(grammars_, nullptr); }

  static std::unique_ptr<Grammar> Compile(Language language, const std::string& source) {
    auto grammar = grammars_->Compile(language, source);
    EXPECT_TRUE(grammar.ok()) << source << ": " << grammar.status();
    return grammar.ok() ? *std::move(grammar) : nullptr;
  }
  // Ids that may come next.
  static std::vector<int32_t> Allowed(Grammar& grammar) {
    std::vector<uint32_t> mask((RealTokenizer().vocabulary_size() + 31) / 32);
    EXPECT_TRUE(grammar.Mask(absl::MakeSpan(mask)).ok());
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < RealTokenizer().vocabulary_size(); ++id) {
      if (mask[id / 32] >> (id % 32) & 1) ids.push_back(id);
    }
    return ids;
  }
  static bool IsEnd(int32_t id) {
    const auto& ends = RealTokenizer().eos_ids();
    return std::find(ends.begin(), ends.end(), id) != ends.end();
  }
  // Any tokens that are allowed, until an end token is drawn; empty if that takes too long.
  static std::vector<int32_t> Draw(Grammar& grammar, std::mt19937& random) {
    std::vector<int32_t> ids;
    while (ids.size() < 300) {
      const std::vector<int32_t> allowed = Allowed(grammar);
      EXPECT_FALSE(allowed.empty());
      if (allowed.empty()) break;
      // An end token at once where there is one: texts stay short.
      const auto end = std::find_if(allowed.begin(), allowed.end(), IsEnd);
      if (end != allowed.end()) return ids;
      ids.push_back(allowed[random() % allowed.size()]);
      EXPECT_TRUE(grammar.Accept(ids.back()).ok());
    }
    ADD_FAILURE() << "no end after " << ids.size() << " tokens";
    return {};
  }
  static std::string Text(const std::vector<int32_t>& ids) { return RealTokenizer().Decode(ids, true); }

  static Grammars* grammars_;
};

Grammars* GrammarTest::grammars_ = nullptr;

TEST_F(GrammarTest, WhatMayBeDrawnFits) {
  std::mt19937 random(7);
  const std::string date = "(19|20)[0-9]{2}-[01][0-9]-[0-3][0-9]";
  for (int i = 0; i < 20; ++i) {
    auto regex = Compile(Language::kRegex, date);
    const std::string text = Text(Draw(*regex, random));
    EXPECT_TRUE(std::regex_match(text, std::regex(date))) << text;
    auto lark =
        Compile(Language::kLark, "start: greeting \" \" NAME\ngreeting: \"hello\" | \"bye\"\nNAME: /[a-z]{1,6}/");
    const std::string sentence = Text(Draw(*lark, random));
    EXPECT_TRUE(std::regex_match(sentence, std::regex("(hello|bye) [a-z]{1,6}"))) << sentence;
  }
}

TEST_F(GrammarTest, JsonFollowsItsSchema) {
  std::mt19937 random(11);
  const std::string schema = R"({"type": "object", "properties": {
      "zeta": {"enum": ["x", "yes \"no\"", "가"]}, "alpha": {"type": "integer", "minimum": -5, "maximum": 120},
      "list": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}},
      "required": ["zeta", "alpha", "list"], "additionalProperties": false})";
  for (int i = 0; i < 20; ++i) {
    auto grammar = Compile(Language::kJsonSchema, schema);
    const std::string text = Text(Draw(*grammar, random));
    const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json.is_object()) << text;
    EXPECT_EQ(json.size(), 3u) << text;
    EXPECT_TRUE(json["alpha"].is_number_integer() && json["alpha"] >= -5 && json["alpha"] <= 120) << text;
    EXPECT_TRUE(json["list"].is_array() && !json["list"].empty() && json["list"].size() <= 3) << text;
    EXPECT_TRUE(json["zeta"] == "x" || json["zeta"] == "yes \"no\"" || json["zeta"] == "가") << text;
    // In the order of the schema, with the spaces that models write and no others.
    EXPECT_EQ(text.rfind("{\"zeta\": ", 0), 0u) << text;
    EXPECT_LT(text.find(", \"alpha\": "), text.find(", \"list\": [")) << text;
  }
}

TEST_F(GrammarTest, ACopyAndAReplayGoOnAlike) {
  const std::string schema =
      R"({"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 4, "maxItems": 4})";
  std::mt19937 random(3);
  const auto compiled = Compile(Language::kJsonSchema, schema);
  auto whole = *compiled->Copy();
  const std::vector<int32_t> ids = Draw(*whole, random);
  ASSERT_GT(ids.size(), 8u);
  auto followed = *compiled->Copy();
  for (size_t i = 0; i < ids.size(); ++i) {
    auto replayed = *compiled->Copy();
    for (size_t j = 0; j < i; ++j) ASSERT_TRUE(replayed->Accept(ids[j]).ok());
    auto copy = *followed->Copy();
    EXPECT_EQ(Allowed(*replayed), Allowed(*followed)) << i;
    EXPECT_EQ(Allowed(*copy), Allowed(*followed)) << i;
    ASSERT_TRUE(followed->Accept(ids[i]).ok());
  }
  EXPECT_TRUE(IsEnd(Allowed(*followed).front()));
}

TEST_F(GrammarTest, EndsOnlyWhereTheTextIsComplete) {
  auto grammar = Compile(Language::kRegex, "ab*");
  for (const int32_t id : Allowed(*grammar)) EXPECT_FALSE(IsEnd(id));
  ASSERT_TRUE(grammar->Accept((*RealTokenizer().EncodeText("a"))[0]).ok());
  bool ends = false, goes_on = false;
  for (const int32_t id : Allowed(*grammar)) (IsEnd(id) ? ends : goes_on) = true;
  EXPECT_TRUE(ends);
  EXPECT_TRUE(goes_on);
  EXPECT_FALSE(grammar->Accept((*RealTokenizer().EncodeText("z"))[0]).ok());
}

TEST_F(GrammarTest, WhatCannotBeUsedIsRefusedWithWords) {
  const auto nested = [](int depth, const std::string& open, const std::string& close) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += open;
    for (int i = 0; i < depth; ++i) text += close;
    return text;
  };
  const struct {
    Language language;
    std::string source, words;
  } cases[] = {
      {Language::kJsonSchema, "", "0 bytes"},
      {Language::kJsonSchema, "{", "not JSON"},
      {Language::kJsonSchema, R"({"type": "strin"})", "strin"},
      {Language::kJsonSchema, R"({"type": "string", "format": "no such"})", "no such"},
      {Language::kJsonSchema, R"({"$ref": "https://example.org/schema"})", ""},
      {Language::kJsonSchema, R"({"$ref": "#/nowhere"})", ""},
      {Language::kJsonSchema, R"({"enum": []})", ""},
      {Language::kJsonSchema, "false", ""},
      {Language::kJsonSchema, nested(2000, "[", "]"), "nested"},
      {Language::kRegex, "(", ""},
      {Language::kRegex, nested(30000, "(", ")"), "nested"},
      {Language::kRegex, std::string(kGrammarBytesMax + 1, 'a'), "65537 bytes"},
      {Language::kRegex, "\xff", "UTF-8"},
      {Language::kLark, "other: \"x\"", "start"},
      {Language::kLark, "start: missing", "missing"},
      {Language::kLark, "start: " + nested(20000, "(", ")"), "nested"},
  };
  for (const auto& [language, source, words] : cases) {
    const auto grammar = grammars_->Compile(language, source);
    EXPECT_EQ(grammar.status().code(), absl::StatusCode::kInvalidArgument) << source.substr(0, 60);
    EXPECT_THAT(std::string(grammar.status().message()), HasSubstr(words)) << source.substr(0, 60);
  }
  // Large numbers are no large grammars.
  for (const char* large : {"a{1000000000}", "((a{1000}){1000}){1000}"}) {
    auto grammar = Compile(Language::kRegex, large);
    ASSERT_NE(grammar, nullptr);
    EXPECT_FALSE(Allowed(*grammar).empty());
  }
}

}  // namespace
}  // namespace kvrelay::text
