// Worker processes in miniature: real gRPC servers in this process, with the fake model behind them. KV travels through
// a FakeFabric, which is all that a prefill and a decode worker share.
//
// Thread-safe.
#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "router/worker.h"

namespace kvrelay::router {

// Waits until `condition` holds, for a very long time at most. For things that must come, not for how fast.
bool Eventually(const std::function<bool()>& condition);

// Tokens that were published with their KV, by handoff id and attempt.
class FakeFabric {
 public:
  void Publish(const std::string& handoff_id, const wire::Selected& selected);
  // False if nothing is there after a few milliseconds.
  bool Take(const std::string& handoff_id, wire::Selected* selected);

 private:
  std::mutex mutex_;
  std::condition_variable published_;
  std::map<std::string, wire::Selected> selected_;
};

struct FakeWorkerOptions {
  v1::WorkerRole role = v1::WORKER_ROLE_DECODE;
  std::string instance = {};
  uint64_t epoch = 1;
  std::string fingerprint = {};  // empty: the fake model's
  std::string claims_role = {};  // empty: its own
  std::string listen = "127.0.0.1:0";
};

class FakeWorkerServer {
 public:
  FakeWorkerServer(FakeWorkerOptions options, FakeFabric* fabric);
  ~FakeWorkerServer();  // as if killed: all calls end

  const std::string& address() const;
  int active_calls() const { return active_calls_; }
  // Of all Prefill and Decode calls so far.
  std::multimap<std::string, std::string> metadata() const;

  // Behaviour, to be changed at any time.
  std::atomic<bool> frozen{false};  // the compute loop hangs: the beat stands still
  std::atomic<bool> draining{false};
  std::atomic<bool> hold_tokens{false};    // select nothing until it is false again or the call is cancelled
  std::atomic<int> tokens_until_hold{-1};  // hold after this many tokens; below 0: never

 private:
  class StatusService;
  class PrefillService;
  class DecodeService;
  struct Parts;
  void Record(const grpc::ServerContext& context);

  std::atomic<int> active_calls_{0};
  mutable std::mutex metadata_mutex_;
  std::multimap<std::string, std::string> metadata_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace kvrelay::router
