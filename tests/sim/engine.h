// An engine on virtual time: a real KV pool, real sessions and their accounting, the listener calls of the real loop,
// and the model of model.h. A step takes time per row, and its layers are done one after the other.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/engine/engine.h"
#include "common/engine/live_session.h"
#include "common/kv/block_pool.h"
#include "tests/sim/world.h"

namespace kvrelay::sim {

// Most guesses in one step.
inline constexpr int kDraftTokens = 7;

class SimEngine final : public engine::Engine {
 public:
  // `violation` is told when a sequence is decoded from keys and values that are not those of its history.
  SimEngine(World* world, Process* process, int blocks, std::function<void(std::string)> violation);

  absl::StatusOr<std::shared_ptr<engine::Session>> Reserve(engine::SessionSpec spec) override;
  void Start(std::shared_ptr<engine::Session> session, std::shared_ptr<engine::SessionListener> listener) override;
  void Stop(const std::shared_ptr<engine::Session>& session, sampling::EndReason reason) override;
  void Hold(const std::shared_ptr<engine::Session>& session) override;
  void Resume(const std::shared_ptr<engine::Session>& session) override;
  engine::EngineLoad Load() const override;
  int context_length() const override;
  const std::string& numerics_id() const override { return numerics_id_; }
  const kv::KvLayout& kv_layout() const override { return pool_->layout(); }
  const model::Model& model() const override;

  // Faults: the loop stands still; steps take longer.
  void Hang(bool hung);
  void set_slowness(int factor) { slowness_ = factor; }
  // The process is no more.
  void Bury();

  int blocks_referenced() const { return pool_->referenced(); }
  size_t sessions() const { return live_.size(); }
  // Whether anybody holds KV of the request with this seed.
  bool HoldsKv(uint64_t seed) const;

 private:
  struct Command {
    enum Kind { kStart, kStop, kHold, kResume } kind;
    std::shared_ptr<engine::Session> session;
    std::shared_ptr<engine::SessionListener> listener = nullptr;  // of kStart
    sampling::EndReason reason = sampling::EndReason::kNone;      // of kStop
  };
  using Live = std::list<engine::LiveSession>::iterator;

  void Enqueue(Command command);
  // Goes on with `next` after `delay`, unless the loop hangs then.
  void Later(absl::Duration delay, Task next);
  void Loop();
  void Obey(Command command);
  bool Runnable() const;
  void BeginStep();
  void LayerDone(int layer);
  void EndStep();
  void End(Live live, const absl::Status& status, sampling::EndReason reason);
  void Beat();
  void CheckKv(const engine::Session& session, absl::Span<const int32_t> history, const char* when);

  World* const world_;
  Process* const process_;
  const std::function<void(std::string)> violation_;
  const std::string numerics_id_;
  const std::unique_ptr<kv::BlockPool> pool_;
  int reserved_ = 0;
  std::vector<std::pair<uint64_t, std::weak_ptr<kv::SequenceCache>>> caches_;  // by the request's seed

  std::vector<Command> commands_;
  std::list<engine::LiveSession> live_;
  std::vector<Live> in_step_;
  std::vector<model::Chunk> chunks_;
  std::vector<float> logits_, scores_;
  bool busy_ = false;  // a turn of the loop is due
  bool hung_ = false, buried_ = false;
  std::vector<Task> stopped_;  // turns that were due while it hung
  int slowness_ = 1;
  uint64_t beat_ = 0, steps_ = 0;
};

}  // namespace kvrelay::sim
