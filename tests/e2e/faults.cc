#include "tests/e2e/faults.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace kvrelay::e2e {
namespace {

// A slow link carries this much: a prompt of 300 tokens takes seconds.
constexpr double kSlowBytesPerSecond = 1e6;

// Whether the routers that answer see the worker ready, and one does.
bool Ready(Cluster& cluster, const std::string& name) {
  bool seen = false;
  for (const std::string& router : cluster.names("router")) {
    if (router == name) continue;
    const absl::StatusOr<v1::GetStatusResponse> status = cluster.StatusOf(router, absl::Seconds(1));
    if (!status.ok()) continue;
    for (const v1::WorkerStatus& worker : status->workers()) {
      if (worker.instance() != name) continue;
      if (!worker.ready()) return false;
      seen = true;
    }
  }
  return seen;
}

// A router that was restarted or suspended is back when it answers with a ready worker of each role.
bool RouterReady(Cluster& cluster, const std::string& name) {
  const absl::StatusOr<v1::GetStatusResponse> status = cluster.StatusOf(name, absl::Seconds(1));
  bool prefill = false, decode = false;
  if (!status.ok()) return false;
  for (const v1::WorkerStatus& worker : status->workers()) {
    prefill = prefill || (worker.ready() && worker.role() == v1::WORKER_ROLE_PREFILL);
    decode = decode || (worker.ready() && worker.role() == v1::WORKER_ROLE_DECODE);
  }
  return prefill && decode;
}

// Up to `longest`, at random.
void Last(absl::Duration longest, const FaultChoice& choice) {
  const auto milliseconds = static_cast<uint64_t>(absl::ToInt64Milliseconds(longest));
  const absl::Duration end = Clock::Real()->Now() + absl::Milliseconds(100 + choice.random(milliseconds));
  while (Clock::Real()->Now() < end && !choice.over()) absl::SleepFor(absl::Milliseconds(50));
}

absl::Status Hit(Cluster& cluster, const std::string& name, const std::string& fault, const FaultChoice& choice) {
  if (fault == "kill") {
    cluster.process(name).Signal(SIGKILL);
    Last(absl::Milliseconds(1500), choice);
    return cluster.Restart(name);
  }
  if (fault == "drain") return cluster.Restart(name, SIGTERM);
  if (fault == "suspend") {
    cluster.process(name).Signal(SIGSTOP);
    Last(absl::Seconds(8), choice);
    cluster.process(name).Signal(SIGCONT);
    return absl::OkStatus();
  }
  const bool kv = fault.rfind("kv ", 0) == 0;
  const std::string how = kv ? fault.substr(3) : fault;
  Proxy& proxy = kv ? cluster.kv_link(name) : cluster.link(name);
  proxy.Set(how == "cut" ? Link::kCut : how == "slow" ? Link::kSlow : Link::kHalfOpen, kSlowBytesPerSecond);
  // Half-open for long enough to be found by keepalive.
  Last(absl::Seconds(how == "half-open" ? 20 : 4), choice);
  proxy.Set(Link::kWhole);
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> FaultsOf(const std::string& role) {
  if (role == "router") return {"kill", "suspend"};
  std::vector<std::string> faults = {"kill", "suspend", "drain", "cut", "slow", "half-open"};
  if (role == "decode") faults.insert(faults.end(), {"kv cut", "kv slow", "kv half-open"});
  return faults;
}

absl::Status Strike(Cluster& cluster, const std::string& role, int count, const FaultChoice& choice, FaultSpan* span) {
  const std::vector<std::string> faults = FaultsOf(role);
  const std::string& fault = faults[choice.random(faults.size())];
  const std::string name = absl::StrCat(role, "-", 1 + choice.random(static_cast<uint64_t>(count)));
  *span = {absl::StrCat(fault, " ", role), Clock::Real()->Now(), {}};
  KV_RETURN_IF_ERROR(Hit(cluster, name, fault, choice));
  const bool back = WaitUntil([&] { return role == "router" ? RouterReady(cluster, name) : Ready(cluster, name); });
  span->end = Clock::Real()->Now();
  if (back) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(name, " is not back at work after: ", fault));
}

}  // namespace kvrelay::e2e
