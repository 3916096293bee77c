// A worker of a scale run: it takes calls, queues, takes time and refuses as a real one, and computes nothing. So ten
// thousand of them fit into one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kvrelay/worker/v1/decode.pb.h"
#include "kvrelay/worker/v1/prefill.pb.h"
#include "router/placement_memory.h"
#include "router/worker_table.h"
#include "tests/sim/world.h"

namespace kvrelay::sim {

namespace wire = ::kvrelay::worker::v1;

inline constexpr char kScaleFingerprint[] = "5ca1e5ca1e5ca1e";

// A call of a router on a worker. What the worker says takes `kScaleLatency`, as what it is told.
struct ScaleCall {
  std::function<void(const wire::DecodeResponse&)> on_decode;
  std::function<void(const wire::PrefillResponse&)> on_prefill;
  std::function<void(const absl::Status&)> on_end;
  bool open = true;     // the router has not let go of it
  uint64_t number = 0;  // at its worker
};
using ScaleCallPtr = std::shared_ptr<ScaleCall>;
inline constexpr absl::Duration kScaleLatency = absl::Milliseconds(1);

// Full blocks that a worker keeps, the least recently used give way.
class BlockCache {
 public:
  // Positions held of the sequence, from 0.
  uint32_t Held(const router::BlockChain& chain);
  void Keep(const router::BlockChain& chain);

 private:
  static constexpr size_t kBlocksMax = 128;
  std::list<uint64_t> by_recency_;  // used last first
  absl::flat_hash_map<uint64_t, std::list<uint64_t>::iterator> blocks_;
};

class ScaleWorker {
 public:
  static constexpr double kPromptRate = 1000;  // positions per second
  static constexpr absl::Duration kTokenGap = absl::Milliseconds(250);
  static constexpr uint64_t kWaitingMax = 4000;  // prompt tokens
  static constexpr absl::Duration kReportEvery = absl::Milliseconds(500);

  struct Session;
  // Reservations of all decode workers by handoff id, where KV goes.
  using Reservations = absl::flat_hash_map<std::string, std::weak_ptr<Session>>;

  // `blocks`: of its KV pool.
  ScaleWorker(World* world, Reservations* reservations, v1::WorkerRole role, int number, uint32_t blocks);
  ~ScaleWorker();

  router::WorkerTable::Key key() const { return {role_, address_}; }
  wire::WatchStatusResponse Status();
  bool alive() const { return alive_; }
  bool draining() const { return draining_; }
  // Whether a request of this many tokens would be taken.
  bool HasRoom(uint64_t tokens) const;
  // Positions that it was given to compute: prompts as far as it did not hold them, and tokens.
  uint64_t assigned() const { return assigned_; }
  // Of prompts that it computed: all positions, and those that it held.
  uint64_t prompt_positions() const { return prompt_positions_; }
  uint64_t reused_positions() const { return reused_positions_; }

  void Prefill(const ScaleCallPtr& call, const wire::PrefillRequest& request);
  void Decode(const ScaleCallPtr& call, const wire::DecodeRequest& request);
  void Close(const ScaleCallPtr& call);

  void Drain() { draining_ = true; }
  // All its calls fail.
  void Kill();

 private:
  struct Job {
    ScaleCallPtr call;
    router::BlockChain chain;
    uint32_t length = 0;
    std::function<void(uint32_t held)> done;
  };

  void Reserve(const ScaleCallPtr& call, const wire::Reserve& reserve);
  void MoveTo(Session* session, const wire::MoveTo& move);
  // All KV of the session is there, and its next token is selected every `kTokenGap`.
  static void Run(const std::shared_ptr<Session>& session);
  static void SelectLater(const std::shared_ptr<Session>& session);
  static void EndSession(Session* session, wire::EndReason reason);
  void Take(const ScaleCallPtr& call);
  void Enqueue(Job job);
  void StartNext();
  void Refuse(const ScaleCallPtr& call, const absl::Status& status);
  void Tell(const ScaleCallPtr& call, const wire::DecodeResponse& response);
  void Tell(const ScaleCallPtr& call, const wire::PrefillResponse& response);

  World* const world_;
  Reservations* const reservations_;
  const v1::WorkerRole role_;
  const uint32_t blocks_;
  const std::string address_;
  wire::WorkerIdentity identity_;
  bool alive_ = true, draining_ = false;
  uint64_t beat_ = 0, calls_taken_ = 0;
  std::map<uint64_t, ScaleCallPtr> calls_;  // by number: in the order in which they came
  absl::flat_hash_map<const ScaleCall*, std::shared_ptr<Session>> sessions_;
  uint32_t blocks_used_ = 0;
  std::deque<Job> jobs_;  // the first is under way
  absl::Duration job_ends_;
  uint64_t waiting_ = 0;  // tokens of all jobs but the first
  BlockCache cache_;
  uint64_t assigned_ = 0, prompt_positions_ = 0, reused_positions_ = 0;
};

}  // namespace kvrelay::sim
