// Against Hugging Face: ids of tests/golden/data/tokenizer_goldens.json (made by tests/golden/make_goldens.py).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/text/text_testing.h"

namespace kvrelay::text {
namespace {

nlohmann::json Goldens() {
  const char* source = std::getenv("KVRELAY_SOURCE_DIR");
  std::ifstream file(std::string(source == nullptr ? "." : source) + "/tests/golden/data/tokenizer_goldens.json");
  return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
}

TEST(Golden, TextIdsAreThoseOfHuggingFace) {
  const nlohmann::json goldens = Goldens();
  ASSERT_FALSE(goldens.is_discarded()) << "tests/golden/data/tokenizer_goldens.json is missing or broken";
  ASSERT_GT(goldens["texts"].size(), 200u);
  for (const auto& golden : goldens["texts"]) {
    const std::string text = golden["text"];
    const auto ids = RealTokenizer().EncodeText(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, golden["ids"].get<std::vector<int32_t>>()) << "\"" << text << "\"";
  }
}

TEST(Golden, ChatIdsAreThoseOfHuggingFace) {
  const nlohmann::json goldens = Goldens();
  ASSERT_FALSE(goldens.is_discarded()) << "tests/golden/data/tokenizer_goldens.json is missing or broken";
  ASSERT_GT(goldens["chats"].size(), 10u);
  for (const auto& golden : goldens["chats"]) {
    std::vector<ChatMessage> messages;
    for (const auto& message : golden["messages"]) messages.push_back({message["role"], message["content"]});
    const auto ids = RealTokenizer().EncodeChat(messages);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, golden["ids"].get<std::vector<int32_t>>()) << golden["rendered"];
    EXPECT_EQ(RealTokenizer().Decode(*ids, true), golden["rendered"].get<std::string>());
  }
}

}  // namespace
}  // namespace kvrelay::text
