#include "common/worker/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "common/base/cpu_limit.h"
#include "decode_worker/options.h"

namespace kvrelay::worker {
namespace {

std::variant<WorkerOptions, int> Parse(std::vector<const char*> flags, bool decode = false) {
  flags.insert(flags.begin(), "program");
  const int count = static_cast<int>(flags.size());
  return decode ? decode_worker::ParseOptions(count, flags.data()) : ParseWorkerOptions(count, flags.data(), "prefill");
}

TEST(OptionsTest, Defaults) {
  const auto parsed = Parse({"--model", "m.gguf"});
  ASSERT_TRUE(std::holds_alternative<WorkerOptions>(parsed));
  const auto& options = std::get<WorkerOptions>(parsed);
  EXPECT_EQ(options.model, "m.gguf");
  EXPECT_EQ(options.listen, "127.0.0.1:0");
  EXPECT_GE(options.threads, 1);
  EXPECT_TRUE(options.cpus.empty());
  EXPECT_EQ(options.kv_pool_mib, 512);
  EXPECT_EQ(options.prefill_chunk, 512);
  EXPECT_EQ(options.step_budget, absl::Milliseconds(200));
  EXPECT_EQ(options.max_sessions, 256);
  EXPECT_EQ(options.kv_type, kv::KvType::kF16);
  EXPECT_THAT(options.instance, ::testing::StartsWith("prefill-"));
}

TEST(OptionsTest, EveryFlag) {
  const auto parsed =
      Parse({"--model=m", "--listen=[::1]:7", "--advertise=h:9", "--instance=d", "--threads=3", "--kv-pool-mib=64",
             "--kv-type=f32", "--matmul=openblas", "--isa=scalar", "--context-length=9", "--prefill-chunk=1",
             "--step-budget-ms=5", "--max-sessions=2", "--log-format=json", "--log-level=warning", "--port-file=p"},
            /*decode=*/true);
  ASSERT_TRUE(std::holds_alternative<WorkerOptions>(parsed));
  const auto& options = std::get<WorkerOptions>(parsed);
  EXPECT_EQ(options.advertise, "h:9");
  EXPECT_EQ(options.instance, "d");
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.kv_type, kv::KvType::kF32);
  EXPECT_EQ(options.matmul, kernels::MatmulBackend::kOpenBlas);
  EXPECT_EQ(options.isa, kernels::Isa::kScalar);
  EXPECT_EQ(options.context_length, 9);
  EXPECT_EQ(options.step_budget, absl::Milliseconds(5));
  EXPECT_EQ(options.log_level, observability::LogLevel::kWarning);
  EXPECT_EQ(options.port_file, "p");
}

TEST(OptionsTest, PinningNeedsACpuForEachThread) {
  const auto one = std::get<WorkerOptions>(Parse({"--model=m", "--threads=1", "--pin-threads"}));
  EXPECT_EQ(one.cpus, AllowedCpus());
  EXPECT_EQ(std::get<int>(Parse({"--model=m", "--threads=1000", "--pin-threads"})), 2);
}

TEST(OptionsTest, EnvironmentAndFlagsThatWin) {
  setenv("KVRELAY_KV_POOL_MIB", "77", 1);
  setenv("KVRELAY_MODEL", "env.gguf", 1);
  EXPECT_EQ(std::get<WorkerOptions>(Parse({})).kv_pool_mib, 77);
  EXPECT_EQ(std::get<WorkerOptions>(Parse({})).model, "env.gguf");
  EXPECT_EQ(std::get<WorkerOptions>(Parse({"--kv-pool-mib=5"})).kv_pool_mib, 5);
  setenv("KVRELAY_KV_POOL_MIB", "many", 1);
  EXPECT_EQ(std::get<int>(Parse({})), 2);
  unsetenv("KVRELAY_KV_POOL_MIB");
  unsetenv("KVRELAY_MODEL");
}

TEST(OptionsTest, BadValuesExitWith2) {
  unsetenv("KVRELAY_MODEL");
  EXPECT_EQ(std::get<int>(Parse({})), 2) << "no model";
  for (const char* flag : {"--threads=-1", "--kv-pool-mib=0", "--kv-type=f8", "--matmul=mkl", "--isa=sse",
                           "--prefill-chunk=0", "--listen=x", "--log-level=loud", "--log-format=xml", "--instance=a b",
                           "--unknown=1", "--step-budget-ms=0", "--advertise=h:1"}) {
    const auto parsed = Parse({"--model=m", flag});
    ASSERT_TRUE(std::holds_alternative<int>(parsed)) << flag;
    EXPECT_EQ(std::get<int>(parsed), 2) << flag;
  }
}

TEST(OptionsTest, DecodeNeedsAReachableAddress) {
  EXPECT_EQ(std::get<int>(Parse({"--model=m", "--listen=0.0.0.0:50052"}, true)), 2);
  EXPECT_EQ(std::get<int>(Parse({"--model=m", "--advertise=h:0"}, true)), 2);
  EXPECT_TRUE(std::holds_alternative<WorkerOptions>(
      Parse({"--model=m", "--listen=0.0.0.0:50052", "--allow-plaintext", "--advertise=10.0.0.1:50052"}, true)));
  EXPECT_TRUE(std::holds_alternative<WorkerOptions>(
      Parse({"--model=m", "--listen=0.0.0.0:50052", "--allow-plaintext"}, false)));
}

TEST(OptionsTest, OpenAddressesNeedTlsOrALeave) {
  const std::vector<const char*> open = {"--model=m", "--listen=0.0.0.0:1"};
  EXPECT_EQ(std::get<int>(Parse(open)), 2);
  for (const char* local :
       {"--listen=127.0.0.1:1", "--listen=127.1.2.3:1", "--listen=localhost:1", "--listen=[::1]:1"}) {
    EXPECT_TRUE(std::holds_alternative<WorkerOptions>(Parse({"--model=m", local}))) << local;
  }
  for (const char* reachable : {"--listen=10.0.0.1:1", "--listen=[::]:1", "--listen=worker:1", "--listen=127.:1"}) {
    EXPECT_EQ(std::get<int>(Parse({"--model=m", reachable})), 2) << reachable;
  }
  const auto tls = Parse({"--model=m", "--listen=0.0.0.0:1", "--tls-cert=c", "--tls-key=k", "--tls-ca=a"});
  ASSERT_TRUE(std::holds_alternative<WorkerOptions>(tls));
  EXPECT_EQ(std::get<WorkerOptions>(tls).tls.files.ca, "a");
  EXPECT_EQ(std::get<WorkerOptions>(tls).tls.trust_domain, "kvrelay");
  EXPECT_EQ(std::get<int>(Parse({"--model=m", "--tls-cert=c", "--tls-key=k"})), 2) << "no CA";
  EXPECT_EQ(std::get<int>(Parse({"--model=m", "--tls-trust-domain=a/b"})), 2);
  EXPECT_EQ(std::get<int>(Parse({"--model=m", "--health-listen=x"})), 2);
}

TEST(OptionsTest, HelpExitsWith0) { EXPECT_EQ(std::get<int>(Parse({"--help"})), 0); }

}  // namespace
}  // namespace kvrelay::worker
