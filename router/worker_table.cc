#include "router/worker_table.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/observability/log.h"

namespace kvrelay::router {
namespace {

const char* RoleName(v1::WorkerRole role) { return role == v1::WORKER_ROLE_PREFILL ? "prefill" : "decode"; }

std::string Short(const std::string& fingerprint) { return fingerprint.substr(0, 12); }

bool SameProcess(const wire::WorkerIdentity& a, const wire::WorkerIdentity& b) {
  return a.instance() == b.instance() && a.epoch() == b.epoch();
}

}  // namespace

void WorkerTable::Add(const Key& key) {
  Watched& watched = watched_[key];
  watched.worker.role = key.first;
  watched.worker.address = key.second;
}

void WorkerTable::Remove(const Key& key) { watched_.erase(key); }

void WorkerTable::OnReport(const Key& key, wire::WatchStatusResponse report) {
  const auto it = watched_.find(key);
  if (it == watched_.end()) return;
  Watched& watched = it->second;
  const wire::WatchStatusResponse& before = watched.worker.status;
  const bool other = !SameProcess(before.identity(), report.identity());
  if (other || !watched.connected || before.load().beat() != report.load().beat()) {
    watched.beat_changed = clock_->Now();
  }
  if (other) watched.circuit = Circuit();
  watched.worker.status = std::move(report);
  watched.connected = true;
}

void WorkerTable::OnStreamEnd(const Key& key, const absl::Status& status) {
  const auto it = watched_.find(key);
  if (it == watched_.end()) return;
  it->second.connected = false;
  it->second.error = status.ok() ? absl::UnavailableError("the worker ended its status stream") : status;
  // What it last said of its load is no longer true.
  it->second.worker.status.clear_load();
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

Worker WorkerTable::Judge(const Watched& watched) const {
  Worker worker = watched.worker;
  const bool seen = !worker.instance().empty();
  if (seen) worker.heartbeat_age = clock_->Now() - watched.beat_changed;
  const wire::WatchStatusResponse& status = worker.status;
  const std::string& fingerprint = status.identity().model_fingerprint();
  if (!watched.connected) {
    worker.problem = absl::StrCat("not connected: ", watched.error.message());
  } else if (!seen) {
    worker.problem = "does not say who it is";
  } else if (status.role() != RoleName(worker.role)) {
    worker.problem = absl::StrCat("is a ", status.role(), " worker, configured as ", RoleName(worker.role));
  } else if (fingerprint != fingerprint_) {
    worker.foreign_model = true;
    worker.problem = absl::StrCat("two models in one service: its model file is ", Short(fingerprint),
                                  "..., the router's is ", Short(fingerprint_), "...");
  } else if (status.draining()) {
    worker.problem = "is draining";
  } else if (worker.heartbeat_age > hung_after_) {
    worker.problem = absl::StrCat("its compute loop has given no sign of life for ",
                                  absl::FormatDuration(absl::Trunc(worker.heartbeat_age, absl::Milliseconds(100))));
  } else if (!watched.circuit.Allows(clock_->Now())) {
    worker.problem = absl::StrCat("its last ", watched.circuit.failures(), " calls failed; left alone for a while");
  } else {
    worker.ready = true;
  }
  return worker;
}

void WorkerTable::OnTick() {
  const absl::Duration paused = pauses_.OnTick(clock_->Now());
  for (auto& [key, watched] : watched_) watched.beat_changed = std::min(watched.beat_changed + paused, clock_->Now());
  LogChanges();
}

void WorkerTable::LogChanges() {
  for (auto& [key, watched] : watched_) {
    const Worker now = Judge(watched);
    if (now.ready == watched.was_ready) continue;
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

std::vector<Worker> WorkerTable::Snapshot() const {
  std::vector<Worker> workers;
  std::set<std::pair<v1::WorkerRole, std::string>> seen;
  for (const auto& [key, watched] : watched_) {
    Worker worker = Judge(watched);
    // A name may give an IPv4 and an IPv6 address of one process.
    if (worker.ready && !seen.emplace(worker.role, worker.instance()).second) {
      worker.ready = false;
      worker.problem = "is the same worker as one at another address";
    }
    workers.push_back(std::move(worker));
  }
  return workers;
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
