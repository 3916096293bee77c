#include "router/worker_table.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/observability/log.h"

namespace kvrelay::router {
namespace {

std::string Short(const std::string& fingerprint) { return fingerprint.substr(0, 12); }

bool SameProcess(const wire::WorkerIdentity& a, const wire::WorkerIdentity& b) {
  return a.instance() == b.instance() && a.epoch() == b.epoch();
}

}  // namespace

void WorkerTable::Add(const Key& key) {
  const auto [it, added] = watched_.try_emplace(key);
  if (!added) return;
  it->second.worker.role = key.first;
  it->second.worker.address = key.second;
  ++roles_[key.first].known;
  Assess(&it->second);
}

void WorkerTable::Remove(const Key& key) {
  const auto it = watched_.find(key);
  if (it == watched_.end()) return;
  Unlist(&it->second);
  --roles_[key.first].known;
  watched_.erase(it);
}

void WorkerTable::OnReport(const Key& key, wire::WatchStatusResponse report) {
  const auto it = watched_.find(key);
  if (it == watched_.end()) return;
  Watched& watched = it->second;
  const wire::WatchStatusResponse& before = watched.worker.status;
  const bool other = !SameProcess(before.identity(), report.identity());
  if (other || !watched.connected || before.load().beat() != report.load().beat()) {
    watched.beat_changed = clock_->Now();
  }
  if (other) {
    watched.circuit = Circuit();
    Unlist(&watched);
  }
  watched.worker.status = std::move(report);
  watched.connected = true;
  Assess(&watched);
}

void WorkerTable::OnStreamEnd(const Key& key, const absl::Status& status) {
  const auto it = watched_.find(key);
  if (it == watched_.end()) return;
  it->second.connected = false;
  it->second.error = status.ok() ? absl::UnavailableError("the worker ended its status stream") : status;
  // What it last said of its load is no longer true.
  it->second.worker.status.clear_load();
  Assess(&it->second);
}

void WorkerTable::Assess(Watched* watched) {
  Worker& worker = watched->worker;
  const wire::WatchStatusResponse& status = worker.status;
  const std::string& fingerprint = status.identity().model_fingerprint();
  worker.problem.clear();
  worker.foreign_model = false;
  if (!watched->connected) {
    worker.problem = absl::StrCat("not connected: ", watched->error.message());
  } else if (worker.instance().empty()) {
    worker.problem = "does not say who it is";
  } else if (status.role() != RoleName(worker.role)) {
    worker.problem = absl::StrCat("is a ", status.role(), " worker, configured as ", RoleName(worker.role));
  } else if (fingerprint != fingerprint_) {
    worker.foreign_model = true;
    worker.problem = absl::StrCat("two models in one service: its model file is ", Short(fingerprint),
                                  "..., the router's is ", Short(fingerprint_), "...");
  } else if (status.draining()) {
    worker.problem = "is draining";
  }
  worker.problem.empty() ? List(watched) : Unlist(watched);
}

void WorkerTable::List(Watched* watched) {
  // A name may give an IPv4 and an IPv6 address of one process: one of them is listed.
  if (watched->place > 0 || !by_process_.emplace(KeyOf(watched->worker), watched).second) return;
  Group& listed = roles_[watched->worker.role].listed;
  listed.push_back(watched);
  watched->place = listed.size();
}

// REQUIRES: if it is listed, its identity is that which it was listed with.
void WorkerTable::Unlist(Watched* watched) {
  if (watched->place == 0) return;
  by_process_.erase(KeyOf(watched->worker));
  Group& listed = roles_[watched->worker.role].listed;
  listed.back()->place = watched->place;
  listed[watched->place - 1] = listed.back();
  listed.pop_back();
  watched->place = 0;
}

const WorkerTable::Watched* WorkerTable::Find(const Worker& worker) const {
  const auto it = watched_.find({worker.role, worker.address});
  return it == watched_.end() ? nullptr : &it->second;
}

WorkerTable::Watched* WorkerTable::Find(const Worker& worker) {
  return const_cast<Watched*>(std::as_const(*this).Find(worker));
}

void WorkerTable::OnCallOpened(const Worker& worker, uint64_t prompt_tokens) {
  Watched* watched = Find(worker);
  if (watched == nullptr) return;
  ++watched->worker.calls;
  ++watched->worker.calls_total;
  watched->worker.assigned_tokens += prompt_tokens;
  watched->circuit.OnCall();
}

void WorkerTable::OnCallClosed(const Worker& worker, uint64_t prompt_tokens) {
  Watched* watched = Find(worker);
  if (watched == nullptr) return;
  if (watched->worker.calls > 0) --watched->worker.calls;
  watched->worker.assigned_tokens -= std::min(watched->worker.assigned_tokens, prompt_tokens);
  watched->circuit.OnCallEnd();
}

void WorkerTable::OnOutcome(const Worker& worker, const absl::Status& outcome) {
  Watched* watched = Find(worker);
  if (watched == nullptr || !SameProcess(watched->worker.status.identity(), worker.status.identity())) return;
  if (outcome.ok()) return watched->circuit.OnSuccess();
  if (absl::IsResourceExhausted(outcome) || absl::IsCancelled(outcome) || absl::IsAborted(outcome)) return;
  watched->circuit.OnFailure(clock_->Now());
}

bool WorkerTable::IsReady(const Watched& watched, absl::Duration now) const {
  return watched.worker.problem.empty() && now - watched.beat_changed <= hung_after_ && watched.circuit.Allows(now);
}

Worker WorkerTable::Judge(const Watched& watched) const {
  Worker worker = watched.worker;
  const absl::Duration now = clock_->Now();
  if (!worker.instance().empty()) worker.heartbeat_age = now - watched.beat_changed;
  worker.ready = IsReady(watched, now);
  if (worker.ready || !worker.problem.empty()) return worker;
  if (worker.heartbeat_age > hung_after_) {
    worker.problem = absl::StrCat("its compute loop has given no sign of life for ",
                                  absl::FormatDuration(absl::Trunc(worker.heartbeat_age, absl::Milliseconds(100))));
  } else {
    worker.problem = absl::StrCat("its last ", watched.circuit.failures(), " calls failed; left alone for a while");
  }
  return worker;
}

void WorkerTable::OnTick() {
  const absl::Duration now = clock_->Now();
  const absl::Duration paused = pauses_.OnTick(now);
  if (paused > absl::ZeroDuration()) {
    for (auto& [key, watched] : watched_) watched.beat_changed = std::min(watched.beat_changed + paused, now);
  }
  LogChanges();
}

void WorkerTable::LogChanges() {
  const absl::Duration time = clock_->Now();
  for (auto& [key, watched] : watched_) {
    if (IsReady(watched, time) == watched.was_ready) continue;
    const Worker now = Judge(watched);
    watched.was_ready = now.ready;
    if (now.ready) {
      observability::LogInfo("worker_ready", {{"role", RoleName(now.role)},
                                              {"address", now.address},
                                              {"instance", now.instance()},
                                              {"numerics", now.numerics_id()}});
    } else {
      observability::LogWarning("worker_not_ready", {{"role", RoleName(now.role)},
                                                     {"address", now.address},
                                                     {"instance", now.instance()},
                                                     {"problem", now.problem}});
    }
  }
}

void WorkerTable::AddAll(v1::WorkerRole role, std::vector<Worker>* workers) const {
  std::set<std::string> seen;
  for (auto it = watched_.lower_bound({role, ""}); it != watched_.end() && it->first.first == role; ++it) {
    Worker worker = Judge(it->second);
    // A name may give an IPv4 and an IPv6 address of one process.
    if (worker.ready && !seen.insert(worker.instance()).second) {
      worker.ready = false;
      worker.problem = "is the same worker as one at another address";
    }
    workers->push_back(std::move(worker));
  }
}

std::vector<Worker> WorkerTable::Snapshot() const {
  std::vector<Worker> workers;
  for (const v1::WorkerRole role : {v1::WORKER_ROLE_PREFILL, v1::WORKER_ROLE_DECODE}) AddAll(role, &workers);
  return workers;
}

std::vector<Worker> WorkerTable::Candidates(const PlacementRequest& request, const AvoidedWorkers& avoided) {
  std::vector<Worker> candidates;
  for (const v1::WorkerRole role : {v1::WORKER_ROLE_PREFILL, v1::WORKER_ROLE_DECODE}) {
    const Group drawn = roles_[role].known > kFew ? Draw(role, request, avoided) : Group();
    for (const Watched* watched : drawn) candidates.push_back(Judge(*watched));
    // Also if none of many can take the request: all are needed to say why.
    if (drawn.empty()) AddAll(role, &candidates);
  }
  return candidates;
}

WorkerTable::Group WorkerTable::Draw(v1::WorkerRole role, const PlacementRequest& request,
                                     const AvoidedWorkers& avoided) {
  const Group& listed = roles_[role].listed;
  const auto can = [&, now = clock_->Now()](const Watched& watched) {
    return IsReady(watched, now) && CanTake(watched.worker, request, avoided);
  };
  const auto add = [](Watched* watched, Group* group) {
    if (std::find(group->begin(), group->end(), watched) == group->end()) group->push_back(watched);
  };
  Group drawn, full;
  for (size_t looks = 0; looks < kLooksMax && drawn.size() < kDrawn && !listed.empty(); ++looks) {
    Watched* watched = listed[random_() % listed.size()];
    if (can(*watched)) add(watched, HasRoom(watched->worker, request) ? &drawn : &full);
  }
  if (drawn.empty()) drawn.assign(full.begin(), full.begin() + std::min(full.size(), kDrawn));
  if (drawn.empty()) {
    // What it needs is rare: all are looked at, from anywhere on.
    const size_t first = random_();
    for (size_t i = 0; i < listed.size() && drawn.size() < kDrawn; ++i) {
      Watched* watched = listed[(first + i) % listed.size()];
      if (can(*watched)) drawn.push_back(watched);
    }
  }
  for (Watched* watched : Holders(role, request.held)) {
    if (can(*watched)) add(watched, &drawn);
  }
  return drawn;
}

WorkerTable::Group WorkerTable::Holders(v1::WorkerRole role, const HeldPositions& held) const {
  Group holders;
  for (const auto& [process, positions] : held) {
    const auto found = by_process_.find(process);
    if (positions > 0 && found != by_process_.end() && found->second->worker.role == role) {
      holders.push_back(found->second);
    }
  }
  // A hash map's order is another one in every process.
  std::sort(holders.begin(), holders.end(), [](const auto* a, const auto* b) { return a->place < b->place; });
  return holders;
}

bool WorkerTable::Lost(const Worker& worker) const {
  const Watched* watched = Find(worker);
  if (watched == nullptr || !watched->connected) return false;
  return !SameProcess(watched->worker.status.identity(), worker.status.identity()) ||
         clock_->Now() - watched->beat_changed > hung_after_;
}

bool WorkerTable::Draining(const Worker& worker) const {
  const Watched* watched = Find(worker);
  return watched != nullptr && watched->connected && watched->worker.status.draining() &&
         SameProcess(watched->worker.status.identity(), worker.status.identity());
}

}  // namespace kvrelay::router
