#include "router/worker_registry.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/observability/log.h"
#include "common/rpc/status_mapping.h"
#include "kvrelay/worker/v1/worker.grpc.pb.h"

namespace kvrelay::router {
namespace {

const char* RoleName(v1::WorkerRole role) { return role == v1::WORKER_ROLE_PREFILL ? "prefill" : "decode"; }

std::string Short(const std::string& fingerprint) { return fingerprint.substr(0, 12); }

bool SameProcess(const wire::WorkerIdentity& a, const wire::WorkerIdentity& b) {
  return a.instance() == b.instance() && a.epoch() == b.epoch();
}

}  // namespace

// One WatchStatus call. Deletes itself at its end, after it told the registry.
class WorkerRegistry::Stream final : public grpc::ClientReadReactor<wire::WatchStatusResponse> {
 public:
  Stream(WorkerRegistry* registry, Key key, const std::shared_ptr<grpc::Channel>& channel)
      : key_(std::move(key)), registry_(registry), stub_(channel) {}

  void Start() {
    stub_.async()->WatchStatus(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }
  const Key& key() const { return key_; }

  void OnReadDone(bool ok) override {
    if (!ok) return;  // OnDone follows
    registry_->OnReport(this, std::exchange(response_, {}));
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    registry_->OnStreamEnd(this, rpc::FromGrpc(status));
    delete this;
  }

 private:
  const Key key_;
  WorkerRegistry* const registry_;
  wire::WorkerService::Stub stub_;
  grpc::ClientContext context_;
  const wire::WatchStatusRequest request_;
  wire::WatchStatusResponse response_;
};

WorkerRegistry::WorkerRegistry(RegistryOptions options, WorkerChannels* channels, const Clock* clock)
    : options_(std::move(options)), channels_(channels), clock_(clock) {
  for (const WorkerTarget& target : options_.targets) targets_.push_back({.target = target, .addresses = {}});
  resolve_thread_ = std::thread([this] { ResolveLoop(); });
  watch_thread_ = std::thread([this] { WatchLoop(); });
}

WorkerRegistry::~WorkerRegistry() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  resolve_thread_.join();
  watch_thread_.join();
  std::unique_lock lock(mutex_);
  for (auto& [key, watched] : watched_) {
    if (watched.stream != nullptr) watched.stream->Cancel();
  }
  changed_.wait(lock, [this] { return streams_ == 0; });
}

void WorkerRegistry::Pause(absl::Duration duration) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, absl::ToChronoMilliseconds(duration), [this] { return stop_; });
}

void WorkerRegistry::ResolveLoop() {
  while (true) {
    ResolveAll();
    Pause(options_.resolve_every);
    std::lock_guard lock(mutex_);
    if (stop_) return;
  }
}

void WorkerRegistry::ResolveAll() {
  for (Target& entry : targets_) {  // only this thread changes the vector and reads `target`
    auto addresses = options_.resolver(entry.target);
    std::lock_guard lock(mutex_);
    if (addresses.ok()) {
      entry.problem = addresses->empty() ? "the name has no address" : "";
      entry.addresses = *std::move(addresses);
    } else {
      // Workers that were found before are kept: a name server that fails must not stop the service.
      entry.problem = std::string(addresses.status().message());
    }
  }
}

void WorkerRegistry::WatchLoop() {
  while (true) {
    UpdateStreams();
    Pause(absl::Milliseconds(50));
    std::lock_guard lock(mutex_);
    if (stop_) return;
  }
}

void WorkerRegistry::UpdateStreams() {
  std::lock_guard lock(mutex_);
  std::set<Key> wanted;
  for (const Target& entry : targets_) {
    for (const std::string& address : entry.addresses) wanted.emplace(entry.target.role, address);
  }
  for (auto it = watched_.begin(); it != watched_.end();) {
    if (wanted.contains(it->first)) {
      ++it;
      continue;
    }
    if (it->second.stream != nullptr) it->second.stream->Cancel();
    channels_->Forget(it->first.first, it->first.second);
    it = watched_.erase(it);
  }
  const absl::Duration now = clock_->Now();
  for (const Key& key : wanted) {
    Watched& watched = watched_[key];
    watched.worker.role = key.first;
    watched.worker.address = key.second;
    LogChange(&watched);
    if (watched.stream != nullptr || now < watched.retry_at) continue;
    watched.stream = new Stream(this, key, channels_->Get(key.first, key.second));
    ++streams_;
    watched.stream->Start();
  }
}

void WorkerRegistry::OnReport(Stream* stream, wire::WatchStatusResponse report) {
  std::lock_guard lock(mutex_);
  auto it = watched_.find(stream->key());
  if (it == watched_.end() || it->second.stream != stream) return;
  Watched& watched = it->second;
  const wire::WatchStatusResponse& before = watched.worker.status;
  const bool other = !SameProcess(before.identity(), report.identity());
  if (other || !watched.connected || before.load().beat() != report.load().beat()) {
    watched.beat_changed = clock_->Now();
  }
  watched.worker.status = std::move(report);
  watched.connected = true;
  watched.backoff = kBackoffMin;
  LogChange(&watched);
}

void WorkerRegistry::OnStreamEnd(Stream* stream, const absl::Status& status) {
  std::lock_guard lock(mutex_);
  auto it = watched_.find(stream->key());
  if (it != watched_.end() && it->second.stream == stream) {
    Watched& watched = it->second;
    watched.stream = nullptr;
    watched.connected = false;
    watched.error = status.ok() ? absl::UnavailableError("the worker ended its status stream") : status;
    watched.retry_at = clock_->Now() + watched.backoff;
    watched.backoff = std::min(watched.backoff * 2, kBackoffMax);
    LogChange(&watched);
  }
  --streams_;
  changed_.notify_all();
}

Worker WorkerRegistry::Judge(const Watched& watched) const {
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
  } else if (fingerprint != options_.fingerprint) {
    worker.foreign_model = true;
    worker.problem = absl::StrCat("two models in one service: its model file is ", Short(fingerprint),
                                  "..., the router's is ", Short(options_.fingerprint), "...");
  } else if (status.draining()) {
    worker.problem = "is draining";
  } else if (worker.heartbeat_age > options_.hung_after) {
    worker.problem = absl::StrCat("its compute loop has given no sign of life for ",
                                  absl::FormatDuration(absl::Trunc(worker.heartbeat_age, absl::Milliseconds(100))));
  } else {
    worker.ready = true;
  }
  return worker;
}

void WorkerRegistry::LogChange(Watched* watched) {
  const Worker now = Judge(*watched);
  if (now.ready == watched->was_ready) return;
  watched->was_ready = now.ready;
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

std::vector<Worker> WorkerRegistry::Snapshot() const {
  std::lock_guard lock(mutex_);
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
  for (const Target& entry : targets_) {
    if (!entry.addresses.empty()) continue;
    Worker& worker = workers.emplace_back();
    worker.role = entry.target.role;
    worker.address = entry.target.text;
    worker.problem = entry.problem;
  }
  return workers;
}

bool WorkerRegistry::Lost(const Worker& worker) const {
  std::lock_guard lock(mutex_);
  const auto it = watched_.find({worker.role, worker.address});
  if (it == watched_.end() || !it->second.connected) return false;
  const Watched& watched = it->second;
  return !SameProcess(watched.worker.status.identity(), worker.status.identity()) ||
         clock_->Now() - watched.beat_changed > options_.hung_after;
}

void WorkerRegistry::CallOpened(const Worker& worker) {
  std::lock_guard lock(mutex_);
  const auto it = watched_.find({worker.role, worker.address});
  if (it == watched_.end()) return;
  ++it->second.worker.calls;
  ++it->second.worker.calls_total;
}

void WorkerRegistry::CallClosed(const Worker& worker) {
  std::lock_guard lock(mutex_);
  const auto it = watched_.find({worker.role, worker.address});
  if (it != watched_.end() && it->second.worker.calls > 0) --it->second.worker.calls;
}

}  // namespace kvrelay::router
