// The worker processes of a simulation: the flows of production behind simulated calls.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/worker/context.h"
#include "decode_worker/decode_flow.h"
#include "decode_worker/receive_flow.h"
#include "kvrelay/worker/v1/kv.pb.h"
#include "prefill_worker/prefill_flow.h"
#include "tests/sim/engine.h"
#include "tests/sim/model.h"
#include "tests/sim/network.h"
#include "tests/sim/observer.h"

namespace kvrelay::sim {

namespace wire = ::kvrelay::worker::v1;

class Ticks final : public worker::TickSource {
 public:
  Ticks(World* world, Process* process);
  void Add(std::weak_ptr<worker::TickListener> listener) override { listeners_.push_back(std::move(listener)); }

 private:
  void Tick();
  World* const world_;
  Process* const process_;
  std::vector<std::weak_ptr<worker::TickListener>> listeners_;
};

class Tasks final : public TaskRunner {
 public:
  Tasks(World* world, Process* process) : world_(world), process_(process) {}
  void Run(Task task) override { world_->After(absl::Microseconds(30), process_, std::move(task)); }

 private:
  World* const world_;
  Process* const process_;
};

class WorkerProcess : public Process {
 public:
  WorkerProcess(Network* network, Observer* observer, const std::string& name, int node, int blocks);

  // Streams status until the call is over.
  void Watch(const std::shared_ptr<Call>& call, std::function<void(wire::WatchStatusResponse)> report);
  void Drain() { calls_.Drain(); }
  bool Idle() { return calls_.WaitUntilIdle(absl::ZeroDuration()); }
  virtual size_t reservations() const { return 0; }

  SimEngine& engine() { return engine_; }
  std::string address() const;

 protected:
  Network* const network_;
  Observer* const observer_;
  SimEngine engine_;
  worker::LiveCalls calls_;
  Ticks ticks_;
  Tasks tasks_;
  worker::TokenBudget prompt_tokens_{1 << 16};
  kv_wire::SendBudget kv_in_flight_{3 * kv::kBlockPositions * kLayout.PositionBytes()};  // so small that senders wait
  worker::WorkerContext context_;
};

class PrefillProcess final : public WorkerProcess {
 public:
  PrefillProcess(Network* network, Observer* observer, const std::string& name, int node, int blocks);
  void Prefill(const std::shared_ptr<Call>& call, const wire::PrefillRequest& request,
               std::function<void(wire::PrefillResponse)> respond);
};

class DecodeProcess final : public WorkerProcess {
 public:
  DecodeProcess(Network* network, Observer* observer, const std::string& name, int node, int blocks);

  // The server's end of a Decode call; commands follow.
  class Commands {
   public:
    virtual ~Commands() = default;
    virtual void OnRequest(const wire::DecodeRequest& request) = 0;
  };
  std::shared_ptr<Commands> Decode(const std::shared_ptr<Call>& call,
                                   std::function<void(wire::DecodeResponse)> respond);

  // The server's end of a ReceiveKv call. The receipt is valid when the call ends well.
  class Messages {
   public:
    virtual ~Messages() = default;
    virtual void OnMessage(const wire::ReceiveKvRequest& message) = 0;
  };
  std::shared_ptr<Messages> ReceiveKv(const std::shared_ptr<Call>& call,
                                      std::shared_ptr<wire::ReceiveKvResponse> receipt);

  size_t reservations() const override { return reservations_.size(); }

 private:
  class DecodeServer;
  class ReceiveServer;
  decode_worker::ReservationTable reservations_;
};

}  // namespace kvrelay::sim
