#include "common/rpc/status_mapping.h"

#include <gtest/gtest.h>

#include <string>

namespace kvrelay::rpc {
namespace {

TEST(StatusMappingTest, EveryCodeGoesThereAndBack) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
  EXPECT_EQ(FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(77), "x")).code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(-1), "x")).code(), absl::StatusCode::kUnknown);
}

TEST(StatusMappingTest, MessagesAreValidAndBounded) {
  const auto message = [](const std::string& text) { return ToGrpc(absl::InternalError(text)).error_message(); };
  EXPECT_EQ(message("a\xff"
                    "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(message("\xed\xa0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
  EXPECT_EQ(message("\xc0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
  EXPECT_EQ(message("\xf4\x90\x80\x80").substr(0, 3), "\xEF\xBF\xBD");         // above U+10FFFF
  EXPECT_EQ(message("\xED\x95\x9C \xF0\x9F\x98\x80"), "\xED\x95\x9C \xF0\x9F\x98\x80");
  EXPECT_EQ(message("\xED\x95"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // cut short
  std::string emoji;
  for (int i = 0; i < 1000; ++i) emoji += "\xF0\x9F\x98\x80";
  EXPECT_LE(message(emoji).size(), kMaxMessageBytes);
  EXPECT_EQ(message(emoji).substr(message(emoji).size() - 7), "\xF0\x9F\x98\x80...");
}

TEST(StatusMappingTest, RetryDelayTravels) {
  const absl::Status status = WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Milliseconds(1500));
  const grpc::Status sent = ToGrpc(status);
  EXPECT_FALSE(sent.error_details().empty());
  EXPECT_EQ(RetryDelay(FromGrpc(sent)), absl::Milliseconds(1500));
  EXPECT_EQ(RetryDelay(absl::InternalError("x")), std::nullopt);
}

TEST(StatusMappingTest, GarbageInDetailsIsIgnored) {
  for (const std::string& details :
       {std::string("\xff\xff\xff"), std::string("\x1a\x02\x0a\x7f"), std::string("\x1a\x00", 2)}) {
    EXPECT_EQ(FromGrpc(grpc::Status(grpc::StatusCode::ABORTED, "m", details)).code(), absl::StatusCode::kAborted);
  }
}

}  // namespace
}  // namespace kvrelay::rpc
