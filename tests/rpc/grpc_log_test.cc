#include "common/rpc/grpc_log.h"

#include <gmock/gmock.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>

namespace kvrelay::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GrpcLog, BecomesOursWithoutValuesOfMetadata) {
  RouteGrpcLog();
  ::testing::internal::CaptureStderr();
  gpr_log(GPR_ERROR, "Handshake failed");
  gpr_log(GPR_ERROR, "Error parsing metadata: error=%s key=%s value=%s", "invalid value", "te", "hush");
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("warning grpc message=\"Handshake failed\""));
  EXPECT_THAT(log, HasSubstr("key=te"));
  EXPECT_THAT(log, Not(HasSubstr("hush")));
}

}  // namespace
}  // namespace kvrelay::rpc
