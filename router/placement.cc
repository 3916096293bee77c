#include "router/placement.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace kvrelay::router {
namespace {

const char* RoleName(v1::WorkerRole role) { return role == v1::WORKER_ROLE_PREFILL ? "prefill" : "decode"; }

// Reports are up to a heartbeat old, so the router's own calls count where they are more.
uint64_t Load(const Worker& worker) { return std::max<uint64_t>(worker.status.load().active_sessions(), worker.calls); }

// Smaller is better.
auto Rank(const Worker& worker, const AvoidedWorkers& avoided) {
  return std::make_tuple(avoided.IsAvoided(worker), Load(worker), worker.status.load().pending_prompt_tokens(),
                         worker.calls_total, worker.address);
}

// Longest request that the worker can ever take. A prefill worker keeps the KV of prompts only.
uint64_t TokensMax(const Worker& worker) {
  constexpr uint64_t kBlockPositions = 64;
  const uint64_t pool = worker.status.load().kv_blocks_total() * kBlockPositions;
  const bool pool_counts = worker.role == v1::WORKER_ROLE_DECODE && pool > 0;
  return pool_counts ? std::min<uint64_t>(pool, worker.status.context_length()) : worker.status.context_length();
}

bool Fits(const Worker& worker, v1::WorkerRole role, const PlacementRequest& request, const AvoidedWorkers& avoided) {
  return worker.ready && worker.role == role && request.tokens <= TokensMax(worker) &&
         (request.numerics_id.empty() || request.numerics_id == worker.numerics_id()) && !avoided.IsOut(worker);
}

// Why this worker of the right role was not taken.
std::string Objection(const Worker& worker, const PlacementRequest& request, const AvoidedWorkers& avoided) {
  if (!worker.ready) return worker.problem;
  if (avoided.IsOut(worker)) return "failed or refused this request before";
  if (request.tokens > TokensMax(worker)) {
    return absl::StrCat("takes ", TokensMax(worker), " tokens, prompt + max_tokens are ", request.tokens);
  }
  return absl::StrCat("numerics ", worker.numerics_id(), " are not those of the request, ", request.numerics_id);
}

// "no decode worker is ready (127.0.0.1:7001: connection refused)". REQUIRES: PickWorker found none.
std::string WhyNone(absl::Span<const Worker> workers, v1::WorkerRole role, const PlacementRequest& request,
                    const AvoidedWorkers& avoided) {
  constexpr size_t kNamedMax = 4;
  std::vector<std::string> named;
  size_t count = 0;
  for (const Worker& worker : workers) {
    if (worker.role != role) continue;
    if (++count <= kNamedMax) {
      named.push_back(absl::StrCat(worker.address, ": ", Objection(worker, request, avoided)));
    }
  }
  if (count == 0) return absl::StrCat("no ", RoleName(role), " worker is known to this router");
  if (count > kNamedMax) named.push_back(absl::StrCat(count - kNamedMax, " more"));
  return absl::StrCat("no ", RoleName(role), " worker can take it (", absl::StrJoin(named, "; "), ")");
}

absl::Status NoWorker(absl::Span<const Worker> workers, v1::WorkerRole role, const PlacementRequest& request,
                      const AvoidedWorkers& avoided, absl::string_view lead) {
  const std::string message = absl::StrCat(lead, WhyNone(workers, role, request, avoided));
  const bool foreign = std::any_of(workers.begin(), workers.end(),
                                   [&](const Worker& worker) { return worker.role == role && worker.foreign_model; });
  return foreign ? absl::FailedPreconditionError(message) : absl::UnavailableError(message);
}

size_t CountReady(absl::Span<const Worker> workers, v1::WorkerRole role) {
  return std::count_if(workers.begin(), workers.end(),
                       [&](const Worker& worker) { return worker.ready && worker.role == role; });
}

std::string Least(absl::Span<const Worker> workers, const Worker& worker) {
  return absl::StrCat(RoleName(worker.role), " worker ", worker.instance(), ", least loaded of ",
                      CountReady(workers, worker.role), " ready");
}

// The best pair of one set: the best decode worker that has any prefill worker of its numerics beside it.
absl::StatusOr<Plan> PlaceSplit(absl::Span<const Worker> workers, const PlacementRequest& request,
                                const AvoidedWorkers& avoided, absl::string_view lead) {
  Plan plan;
  plan.execution = v1::EXECUTION_SPLIT;
  if (!request.needs_decode) {
    plan.prefill = PickWorker(workers, v1::WORKER_ROLE_PREFILL, request, avoided);
    if (!plan.prefill) return NoWorker(workers, v1::WORKER_ROLE_PREFILL, request, avoided, lead);
    plan.reason = absl::StrCat("one token is wanted, so nothing is left to decode; ", Least(workers, *plan.prefill));
    return plan;
  }
  for (v1::WorkerRole role : {v1::WORKER_ROLE_DECODE, v1::WORKER_ROLE_PREFILL}) {
    if (!PickWorker(workers, role, request, avoided)) return NoWorker(workers, role, request, avoided, lead);
  }
  for (const Worker& decode : workers) {
    if (!Fits(decode, v1::WORKER_ROLE_DECODE, request, avoided)) continue;
    if (plan.decode && Rank(*plan.decode, avoided) < Rank(decode, avoided)) continue;
    PlacementRequest same_set = request;
    same_set.numerics_id = decode.numerics_id();
    std::optional<Worker> prefill = PickWorker(workers, v1::WORKER_ROLE_PREFILL, same_set, avoided);
    if (!prefill) continue;
    plan.decode = decode;
    plan.prefill = std::move(prefill);
  }
  if (!plan.decode) {
    return absl::FailedPreconditionError(
        absl::StrCat(lead, "prefill and decode workers are ready, but no two of them have the same numerics"));
  }
  plan.reason = absl::StrCat(Least(workers, *plan.prefill), "; ", Least(workers, *plan.decode), "; numerics ",
                             plan.decode->numerics_id());
  return plan;
}

absl::StatusOr<Plan> PlaceOnDecode(absl::Span<const Worker> workers, const PlacementRequest& request,
                                   const AvoidedWorkers& avoided, absl::string_view lead) {
  Plan plan;
  plan.execution = request.execution == v1::EXECUTION_NO_CACHE ? v1::EXECUTION_NO_CACHE : v1::EXECUTION_LOCAL;
  plan.decode = PickWorker(workers, v1::WORKER_ROLE_DECODE, request, avoided);
  if (!plan.decode) return NoWorker(workers, v1::WORKER_ROLE_DECODE, request, avoided, lead);
  plan.reason = Least(workers, *plan.decode);
  return plan;
}

}  // namespace

std::optional<Worker> PickWorker(absl::Span<const Worker> workers, v1::WorkerRole role, const PlacementRequest& request,
                                 const AvoidedWorkers& avoided) {
  const Worker* best = nullptr;
  for (const Worker& worker : workers) {
    if (!Fits(worker, role, request, avoided)) continue;
    if (best == nullptr || Rank(worker, avoided) < Rank(*best, avoided)) best = &worker;
  }
  return best == nullptr ? std::nullopt : std::optional<Worker>(*best);
}

absl::StatusOr<Plan> Place(absl::Span<const Worker> workers, const PlacementRequest& request,
                           const AvoidedWorkers& avoided) {
  switch (request.execution) {
    case v1::EXECUTION_SPLIT: {
      auto plan = PlaceSplit(workers, request, avoided, "execution SPLIT was asked for, but ");
      if (plan.ok()) plan->reason = absl::StrCat("split was asked for; ", plan->reason);
      return plan;
    }
    case v1::EXECUTION_LOCAL:
    case v1::EXECUTION_NO_CACHE: {
      const bool local = request.execution == v1::EXECUTION_LOCAL;
      auto plan = PlaceOnDecode(workers, request, avoided,
                                absl::StrCat("execution ", local ? "LOCAL" : "NO_CACHE", " was asked for, but "));
      if (plan.ok()) plan->reason = absl::StrCat(local ? "local" : "no cache", " was asked for; ", plan->reason);
      return plan;
    }
    default:
      break;
  }
  auto split = PlaceSplit(workers, request, avoided, "");
  if (split.ok()) {
    split->reason = absl::StrCat("split by default; ", split->reason);
    return split;
  }
  auto local = PlaceOnDecode(workers, request, avoided, "");
  if (local.ok()) local->reason = absl::StrCat("local because ", split.status().message(), "; ", local->reason);
  return local;
}

}  // namespace kvrelay::router
