#include "router/placement.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kvrelay::router {
namespace {

// Reports are up to a heartbeat old, so the router's own calls count where they are more.
uint64_t Load(const Worker& worker) { return std::max<uint64_t>(worker.status.load().active_sessions(), worker.calls); }

uint32_t Held(const Worker& worker, const PlacementRequest& request) {
  const auto found = request.held.find(KeyOf(worker));
  // The last position is always computed.
  return found == request.held.end() ? 0 : std::min(found->second, std::max(request.to_prefill, 1u) - 1);
}

// Until the worker has computed what waits there and the part of the request that it does not hold.
absl::Duration PrefillTime(const Worker& worker, const PlacementRequest& request) {
  constexpr double kRateBeforeTheFirst = 1000;  // tokens per second
  const wire::Load& load = worker.status.load();
  const double rate = load.prompt_tokens_per_second() > 0 ? load.prompt_tokens_per_second() : kRateBeforeTheFirst;
  // A report is old by up to its interval, in which the worker has gone on.
  const double reported =
      static_cast<double>(load.pending_prompt_tokens()) - rate * absl::ToDoubleSeconds(worker.heartbeat_age);
  const double waiting = std::max(reported, static_cast<double>(worker.assigned_tokens));
  return absl::Seconds((waiting + request.to_prefill - Held(worker, request)) / rate);
}

// Smaller is better. `load_max`: beyond it, what a worker holds does not count.
auto Rank(const Worker& worker, const PlacementRequest& request, const AvoidedWorkers& avoided, uint64_t load_max) {
  const bool prefills = worker.role == v1::WORKER_ROLE_PREFILL;
  const absl::Duration time = prefills ? PrefillTime(worker, request) : absl::ZeroDuration();
  const bool busy = !prefills && Load(worker) > load_max;
  const uint32_t lacks = prefills || busy ? request.to_prefill : request.to_prefill - Held(worker, request);
  return std::make_tuple(avoided.IsAvoided(worker), !HasRoom(worker, request), time, busy, lacks, Load(worker),
                         worker.status.load().pending_prompt_tokens(), worker.calls_total);
}

// Longest request that the worker can ever take. A prefill worker keeps the KV of prompts only.
uint64_t TokensMax(const Worker& worker) {
  const uint64_t pool = worker.status.load().kv_blocks_total() * kBlockTokens;
  const bool pool_counts = worker.role == v1::WORKER_ROLE_DECODE && pool > 0;
  return pool_counts ? std::min<uint64_t>(pool, worker.status.context_length()) : worker.status.context_length();
}

bool Fits(const Worker& worker, v1::WorkerRole role, const PlacementRequest& request, const AvoidedWorkers& avoided) {
  return worker.ready && worker.role == role && CanTake(worker, request, avoided);
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
                      CountReady(workers, worker.role), " compared");
}

// Sessions up to which a decode worker that holds more of the request is preferred: a quarter more than the least.
uint64_t LoadMax(absl::Span<const Worker> workers, v1::WorkerRole role, const PlacementRequest& request,
                 const AvoidedWorkers& avoided) {
  uint64_t least = UINT64_MAX;
  for (const Worker& worker : workers) {
    if (Fits(worker, role, request, avoided)) least = std::min(least, Load(worker));
  }
  return least == UINT64_MAX ? 0 : least + std::max<uint64_t>(2, least / 4);
}

// A Plan that names workers where they stand: they are copied once, at the end.
struct Choice {
  v1::Execution execution = v1::EXECUTION_UNSPECIFIED;
  const Worker* prefill = nullptr;
  const Worker* decode = nullptr;
  std::string reason;
};

// As PickWorker, in `workers`; null if there is none.
const Worker* Best(absl::Span<const Worker> workers, v1::WorkerRole role, const PlacementRequest& request,
                   const AvoidedWorkers& avoided) {
  const uint64_t load_max = LoadMax(workers, role, request, avoided);
  const Worker* best = nullptr;
  for (const Worker& worker : workers) {
    if (!Fits(worker, role, request, avoided)) continue;
    if (best == nullptr || Rank(worker, request, avoided, load_max) < Rank(*best, request, avoided, load_max)) {
      best = &worker;
    }
  }
  return best;
}

// The best pair of one set: the best decode worker that has any prefill worker of its numerics beside it.
absl::StatusOr<Choice> PlaceSplit(absl::Span<const Worker> workers, const PlacementRequest& request,
                                  const AvoidedWorkers& avoided, absl::string_view lead) {
  Choice choice = {.execution = v1::EXECUTION_SPLIT};
  const Worker* prefill = Best(workers, v1::WORKER_ROLE_PREFILL, request, avoided);
  if (!request.needs_decode) {
    if (prefill == nullptr) return NoWorker(workers, v1::WORKER_ROLE_PREFILL, request, avoided, lead);
    choice.prefill = prefill;
    choice.reason = absl::StrCat("one token is wanted, so nothing is left to decode; ", Least(workers, *prefill));
    return choice;
  }
  const Worker* decode = Best(workers, v1::WORKER_ROLE_DECODE, request, avoided);
  if (decode == nullptr) return NoWorker(workers, v1::WORKER_ROLE_DECODE, request, avoided, lead);
  if (prefill == nullptr) return NoWorker(workers, v1::WORKER_ROLE_PREFILL, request, avoided, lead);
  // The best decode worker of every numerics id, with its prefill worker.
  std::set<absl::string_view> tried;
  const uint64_t load_max = LoadMax(workers, v1::WORKER_ROLE_DECODE, request, avoided);
  for (const Worker& any : workers) {
    if (!Fits(any, v1::WORKER_ROLE_DECODE, request, avoided) || !tried.insert(any.numerics_id()).second) continue;
    PlacementRequest same_set = request;
    same_set.numerics_id = any.numerics_id();
    prefill = Best(workers, v1::WORKER_ROLE_PREFILL, same_set, avoided);
    if (prefill == nullptr) continue;
    decode = Best(workers, v1::WORKER_ROLE_DECODE, same_set, avoided);
    const bool is_better = choice.decode == nullptr || !(Rank(*choice.decode, request, avoided, load_max) <
                                                         Rank(*decode, request, avoided, load_max));
    if (!is_better) continue;
    choice.decode = decode;
    choice.prefill = prefill;
  }
  if (choice.decode == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(lead, "prefill and decode workers are ready, but no two of them have the same numerics"));
  }
  choice.reason = absl::StrCat(Least(workers, *choice.prefill), "; ", Least(workers, *choice.decode), "; numerics ",
                               choice.decode->numerics_id());
  return choice;
}

absl::StatusOr<Choice> PlaceOnDecode(absl::Span<const Worker> workers, const PlacementRequest& request,
                                     const AvoidedWorkers& avoided, absl::string_view lead) {
  const Worker* decode = Best(workers, v1::WORKER_ROLE_DECODE, request, avoided);
  if (decode == nullptr) return NoWorker(workers, v1::WORKER_ROLE_DECODE, request, avoided, lead);
  const bool is_no_cache = request.execution == v1::EXECUTION_NO_CACHE;
  return Choice{.execution = is_no_cache ? v1::EXECUTION_NO_CACHE : v1::EXECUTION_LOCAL,
                .decode = decode,
                .reason = Least(workers, *decode)};
}

// The streams of the decode worker, this one, and one more that may come, all wait for a prompt that is computed there.
Choice Cheaper(const PlacementRequest& request, Choice split, Choice local) {
  if (split.decode == nullptr) return split;
  const absl::Duration apart = PrefillTime(*split.prefill, request) + request.handoff;
  const absl::Duration alone = PrefillTime(*local.decode, request);
  const bool is_local = alone * static_cast<double>(Load(*local.decode) + 2) < apart;
  Choice& choice = is_local ? local : split;
  choice.reason = absl::StrCat(is_local ? "local" : "split", " costs less: prefill on ", local.decode->instance(), " ",
                               absl::FormatDuration(absl::Trunc(alone, absl::Microseconds(100))), " for each of ",
                               Load(*local.decode) + 2, ", on ", split.prefill->instance(), " with handoff ",
                               absl::FormatDuration(absl::Trunc(apart, absl::Microseconds(100))), "; ", choice.reason);
  return std::move(choice);
}

absl::StatusOr<Choice> Choose(absl::Span<const Worker> workers, const PlacementRequest& request,
                              const AvoidedWorkers& avoided) {
  switch (request.execution) {
    case v1::EXECUTION_SPLIT: {
      auto choice = PlaceSplit(workers, request, avoided, "execution SPLIT was asked for, but ");
      if (choice.ok()) choice->reason = absl::StrCat("split was asked for; ", choice->reason);
      return choice;
    }
    case v1::EXECUTION_LOCAL:
    case v1::EXECUTION_NO_CACHE: {
      const bool local = request.execution == v1::EXECUTION_LOCAL;
      auto choice = PlaceOnDecode(workers, request, avoided,
                                  absl::StrCat("execution ", local ? "LOCAL" : "NO_CACHE", " was asked for, but "));
      if (choice.ok()) choice->reason = absl::StrCat(local ? "local" : "no cache", " was asked for; ", choice->reason);
      return choice;
    }
    default:
      break;
  }
  auto split = PlaceSplit(workers, request, avoided, "");
  auto local = PlaceOnDecode(workers, request, avoided, "");
  if (split.ok() && local.ok()) return Cheaper(request, *std::move(split), *std::move(local));
  if (split.ok()) return split;
  if (local.ok()) local->reason = absl::StrCat("local because ", split.status().message(), "; ", local->reason);
  return local;
}

}  // namespace

bool CanTake(const Worker& worker, const PlacementRequest& request, const AvoidedWorkers& avoided) {
  return request.tokens <= TokensMax(worker) &&
         (request.numerics_id.empty() || request.numerics_id == worker.numerics_id()) && !avoided.IsOut(worker);
}

bool HasRoom(const Worker& worker, const PlacementRequest& request) {
  const wire::Load& load = worker.status.load();
  const uint64_t tokens = worker.role == v1::WORKER_ROLE_PREFILL ? request.to_prefill : request.tokens;
  return load.kv_blocks_referenced() * kBlockTokens + tokens <= load.kv_blocks_total() * kBlockTokens;
}

std::optional<Worker> PickWorker(absl::Span<const Worker> workers, v1::WorkerRole role, const PlacementRequest& request,
                                 const AvoidedWorkers& avoided) {
  const Worker* best = Best(workers, role, request, avoided);
  return best == nullptr ? std::nullopt : std::optional<Worker>(*best);
}

absl::StatusOr<Plan> Place(absl::Span<const Worker> workers, const PlacementRequest& request,
                           const AvoidedWorkers& avoided) {
  absl::StatusOr<Choice> choice = Choose(workers, request, avoided);
  if (!choice.ok()) return choice.status();
  Plan plan;
  plan.execution = choice->execution;
  if (choice->prefill != nullptr) plan.prefill = *choice->prefill;
  if (choice->decode != nullptr) plan.decode = *choice->decode;
  plan.reason = std::move(choice->reason);
  return plan;
}

}  // namespace kvrelay::router
