#include "common/rpc/peer_role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvrelay/v1/generation.grpc.pb.h"
#include "kvrelay/worker/v1/decode.grpc.pb.h"
#include "kvrelay/worker/v1/kv.grpc.pb.h"
#include "kvrelay/worker/v1/prefill.grpc.pb.h"
#include "kvrelay/worker/v1/worker.grpc.pb.h"

namespace kvrelay::rpc {
namespace {

using ::testing::HasSubstr;

constexpr char kRouter[] = "spiffe://kvrelay/router", kPrefill[] = "spiffe://kvrelay/prefill",
               kDecode[] = "spiffe://kvrelay/decode";

TEST(RoleOf, OneUriOfTheTrustDomain) {
  EXPECT_EQ(*RoleOf({kRouter}, "kvrelay"), PeerRole::kRouter);
  EXPECT_EQ(*RoleOf({"https://x", kDecode}, "kvrelay"), PeerRole::kDecode);
  EXPECT_EQ(*RoleOf({"spiffe://prod.example/prefill", kRouter}, "prod.example"), PeerRole::kPrefill);
  EXPECT_EQ(RoleUri("prod.example", PeerRole::kDecode), "spiffe://prod.example/decode");
}

TEST(RoleOf, NoneOrSeveralIsDenied) {
  for (const std::vector<std::string>& uris : std::vector<std::vector<std::string>>{{},
                                                                                    {"spiffe://kvrelay/"},
                                                                                    {"spiffe://kvrelay/router/"},
                                                                                    {"spiffe://kvrelay/ROUTER"},
                                                                                    {"spiffe://kvrelay.evil/router"},
                                                                                    {"https://kvrelay/router"},
                                                                                    {kRouter, kPrefill}}) {
    EXPECT_TRUE(absl::IsPermissionDenied(RoleOf(uris, "kvrelay").status())) << ::testing::PrintToString(uris);
  }
}

// Every method of every service of our processes, called by every role.
TEST(CheckCall, TheWholeTable) {
  struct Case {
    std::string service;
    bool router, prefill, decode;
  };
  const Case kCases[] = {{worker::v1::KvService::service_full_name(), false, true, true},
                         {worker::v1::PrefillService::service_full_name(), true, false, false},
                         {worker::v1::DecodeService::service_full_name(), true, false, false},
                         {worker::v1::WorkerService::service_full_name(), true, false, false},
                         {"grpc.health.v1.Health", true, true, true},
                         {"grpc.reflection.v1alpha.ServerReflection", true, true, true},
                         {v1::GenerationService::service_full_name(), false, false, false},
                         {"kvrelay.worker.v1.Kv", false, false, false}};
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.service);
    const std::string path = "/" + c.service + "/Any";
    EXPECT_EQ(CheckCall(path, {kRouter}, "kvrelay").ok(), c.router);
    EXPECT_EQ(CheckCall(path, {kPrefill}, "kvrelay").ok(), c.prefill);
    EXPECT_EQ(CheckCall(path, {kDecode}, "kvrelay").ok(), c.decode);
  }
}

TEST(CheckCall, SaysWhatWasWrong) {
  const absl::Status wrong = CheckCall("/kvrelay.worker.v1.DecodeService/Decode", {kPrefill}, "kvrelay");
  EXPECT_TRUE(absl::IsPermissionDenied(wrong));
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("role is prefill"));
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("called by router"));
  const absl::Status none = CheckCall("/kvrelay.worker.v1.KvService/ReceiveKv", {"https://me"}, "kvrelay");
  EXPECT_THAT(std::string(none.message()), HasSubstr("names no role"));
  for (const char* path :
       {"", "/", "x", "kvrelay.worker.v1.KvService/ReceiveKv", "//", "/kvrelay.worker.v1.KvService"}) {
    EXPECT_TRUE(absl::IsPermissionDenied(CheckCall(path, {kPrefill}, "kvrelay"))) << path;
  }
}

}  // namespace
}  // namespace kvrelay::rpc
