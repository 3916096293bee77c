#include "router/worker_registry.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "common/rpc/status_mapping.h"
#include "kvrelay/worker/v1/worker.grpc.pb.h"
#include "router/random_bytes.h"

namespace kvrelay::router {

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
    : options_(std::move(options)),
      channels_(channels),
      clock_(clock),
      table_(options_.fingerprint, options_.hung_after, clock, RandomSeed()) {
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
  for (auto& [key, watch] : watches_) {
    if (watch.stream != nullptr) watch.stream->Cancel();
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
      addresses_changed_ = addresses_changed_ || entry.addresses != *addresses;
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
  if (std::exchange(addresses_changed_, false)) UpdateWatches();
  const absl::Duration now = clock_->Now();
  for (auto& [key, watch] : watches_) {
    if (watch.stream != nullptr || now < watch.retry_at) continue;
    watch.stream = new Stream(this, key, channels_->Get(key.first, key.second));
    ++streams_;
    watch.stream->Start();
  }
  // Looks at every worker, while decisions wait.
  if (now - ticked_ < kTickEvery) return;
  ticked_ = now;
  table_.OnTick();
}

void WorkerRegistry::UpdateWatches() {
  std::set<Key> wanted;
  for (const Target& entry : targets_) {
    for (const std::string& address : entry.addresses) wanted.emplace(entry.target.role, address);
  }
  for (auto it = watches_.begin(); it != watches_.end();) {
    if (wanted.contains(it->first)) {
      ++it;
      continue;
    }
    if (it->second.stream != nullptr) it->second.stream->Cancel();
    channels_->Forget(it->first.first, it->first.second);
    table_.Remove(it->first);
    it = watches_.erase(it);
  }
  for (const Key& key : wanted) {
    watches_.try_emplace(key);
    table_.Add(key);
  }
}

void WorkerRegistry::OnReport(Stream* stream, wire::WatchStatusResponse report) {
  std::lock_guard lock(mutex_);
  const auto it = watches_.find(stream->key());
  if (it == watches_.end() || it->second.stream != stream) return;
  table_.OnReport(stream->key(), std::move(report));
  it->second.backoff = kBackoffMin;
}

void WorkerRegistry::OnStreamEnd(Stream* stream, const absl::Status& status) {
  std::lock_guard lock(mutex_);
  const auto it = watches_.find(stream->key());
  if (it != watches_.end() && it->second.stream == stream) {
    Watch& watch = it->second;
    watch.stream = nullptr;
    watch.retry_at = clock_->Now() + watch.backoff;
    watch.backoff = std::min(watch.backoff * 2, kBackoffMax);
    table_.OnStreamEnd(stream->key(), status);
  }
  --streams_;
  changed_.notify_all();
}

void WorkerRegistry::AddUnresolved(std::vector<Worker>* workers) const {
  for (const Target& entry : targets_) {
    if (!entry.addresses.empty()) continue;
    Worker& worker = workers->emplace_back();
    worker.role = entry.target.role;
    worker.address = entry.target.text;
    worker.problem = entry.problem;
  }
}

std::vector<Worker> WorkerRegistry::Snapshot() const {
  std::lock_guard lock(mutex_);
  std::vector<Worker> workers = table_.Snapshot();
  AddUnresolved(&workers);
  return workers;
}

std::vector<Worker> WorkerRegistry::Candidates(const PlacementRequest& request, const AvoidedWorkers& avoided) {
  std::lock_guard lock(mutex_);
  std::vector<Worker> workers = table_.Candidates(request, avoided);
  AddUnresolved(&workers);
  return workers;
}

bool WorkerRegistry::Lost(const Worker& worker) const {
  std::lock_guard lock(mutex_);
  return table_.Lost(worker);
}

bool WorkerRegistry::Draining(const Worker& worker) const {
  std::lock_guard lock(mutex_);
  return table_.Draining(worker);
}

void WorkerRegistry::OnOutcome(const Worker& worker, const absl::Status& outcome) {
  std::lock_guard lock(mutex_);
  table_.OnOutcome(worker, outcome);
}

void WorkerRegistry::CallOpened(const Worker& worker, uint64_t prompt_tokens) {
  std::lock_guard lock(mutex_);
  table_.OnCallOpened(worker, prompt_tokens);
}

void WorkerRegistry::CallClosed(const Worker& worker, uint64_t prompt_tokens) {
  std::lock_guard lock(mutex_);
  table_.OnCallClosed(worker, prompt_tokens);
}

}  // namespace kvrelay::router
