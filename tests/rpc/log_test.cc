#include "common/observability/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvrelay::observability {
namespace {

constexpr int64_t kTime = 1'764'500'000'123'456'789;

TEST(LogTest, TextLine) {
  EXPECT_EQ(FormatLine(LogFormat::kText, LogLevel::kInfo, kTime, "ready",
                       {{"role", "decode"}, {"threads", 2}, {"ok", true}, {"big", UINT64_MAX}, {"name", "a b"}}),
            "2025-11-30T10:53:20.123Z info ready role=decode threads=2 ok=true big=18446744073709551615 name=\"a b\"");
}

TEST(LogTest, JsonLineKeepsTypes) {
  const auto json = nlohmann::json::parse(FormatLine(LogFormat::kJson, LogLevel::kWarning, kTime, "e",
                                                     {{"n", -1}, {"x", 0.5}, {"s", "q\"\n"}, {"b", false}}));
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["event"], "e");
  EXPECT_EQ(json["n"], -1);
  EXPECT_EQ(json["x"], 0.5);
  EXPECT_EQ(json["s"], "q\"\n");
  EXPECT_EQ(json["b"], false);
}

TEST(LogTest, NoValueBreaksTheLine) {
  for (const std::string& hostile :
       {std::string("a\nb"), std::string("\xff\xfe"), std::string("\0x", 2), std::string("")}) {
    for (LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
      const std::string line = FormatLine(format, LogLevel::kInfo, kTime, "e", {{"v", hostile}});
      for (unsigned char c : line) EXPECT_GE(c, 0x20);
      EXPECT_EQ(line.find('\xff'), std::string::npos);
    }
  }
}

TEST(LogTest, ParsesNames) {
  EXPECT_EQ(*ParseLogFormat("json"), LogFormat::kJson);
  EXPECT_EQ(*ParseLogLevel("error"), LogLevel::kError);
  EXPECT_THAT(std::string(ParseLogLevel("loud").status().message()), ::testing::HasSubstr("loud"));
  EXPECT_FALSE(ParseLogFormat("").ok());
}

}  // namespace
}  // namespace kvrelay::observability
