// A small engine that works: real KV pool, sessions and listener calls, and a "model" whose keys, values and tokens are
// arithmetic. It computes one unit (a layer of a chunk, or a selection) at a time, and a test may hold it between any
// two.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/engine/engine.h"
#include "common/kv/block_pool.h"

namespace kvrelay::testing {

struct FakeEngineOptions {
  kv::KvLayout layout{.layers = 3, .kv_heads = 2, .head_dim = 16, .type = kv::KvType::kF16};
  int blocks = 64;
  int context_length = 2000;
  int chunk = 100;  // prompt positions of one step
  int vocabulary = 300;
  std::string numerics_id = "1-fake-f16-fake";
};

// Keys and values of one position in one layer: finite, and different for every layer, position and token.
std::vector<std::byte> FakeKv(const kv::KvLayout& layout, int layer, int position, int32_t token);
// Writes the fake KV of positions [first, first + tokens.size()) of one layer.
void WriteFakeKv(kv::SequenceCache& cache, int layer, int first, absl::Span<const int32_t> tokens);
// The token that follows a history; at least 10, so that end tokens below come only if a test wants them.
int32_t FakeNextToken(absl::Span<const int32_t> history, int vocabulary);

class FakeEngine final : public engine::Engine {
 public:
  explicit FakeEngine(const FakeEngineOptions& options = {});
  ~FakeEngine() override;

  // Called by Hold before it has an effect, on the caller's thread.
  void BeforeHold(std::function<void()> hook) { before_hold_ = std::move(hook); }
  // Calls of Resume so far.
  int resumes() const { return resumes_; }

  // Units that may still be computed; without a call: no limit.
  void Allow(int64_t units);

  absl::StatusOr<std::shared_ptr<engine::Session>> Reserve(engine::SessionSpec spec) override;
  void Start(std::shared_ptr<engine::Session> session, std::shared_ptr<engine::SessionListener> listener) override;
  void Stop(const std::shared_ptr<engine::Session>& session, sampling::EndReason reason) override;
  void Hold(const std::shared_ptr<engine::Session>& session) override;
  void Resume(const std::shared_ptr<engine::Session>& session) override;
  engine::EngineLoad Load() const override;
  int context_length() const override { return options_.context_length; }
  const std::string& numerics_id() const override { return options_.numerics_id; }
  const kv::KvLayout& kv_layout() const override { return options_.layout; }
  const model::Model& model() const override;

  const FakeEngineOptions& options() const { return options_; }
  int referenced() const { return pool_->referenced(); }
  // Waits until no block is referenced; whether that came within 10 s.
  bool WaitUntilFree() const;
  // The cache of the session reserved last, if it still lives.
  std::shared_ptr<kv::SequenceCache> last_cache() const;

 private:
  struct Live {
    std::shared_ptr<engine::Session> session;
    std::shared_ptr<engine::SessionListener> listener;
    std::vector<int32_t> history;
    engine::PositionCounts counts;
    engine::RunRecord run;
    int layer = 0;      // next layer of the chunk
    int chunk_end = 0;  // 0: no chunk
    bool queued = true;
    bool held = false;
  };
  struct Command {
    enum Kind { kStart, kStop, kHold, kResume } kind;
    std::shared_ptr<engine::Session> session;
    std::shared_ptr<engine::SessionListener> listener = nullptr;  // of kStart
    sampling::EndReason reason = sampling::EndReason::kNone;      // of kStop
  };

  void Loop();
  void Enqueue(Command command);
  void TakeCommands(std::unique_lock<std::mutex>& lock);
  void Obey(Command command);
  bool Runnable() const;
  bool Unit(Live& live);  // false: the session has ended
  bool Select(Live& live);
  static void End(Live live, const absl::Status& status, sampling::EndReason reason);

  std::function<void()> before_hold_ = [] {};
  std::atomic<int> resumes_ = 0;
  const FakeEngineOptions options_;
  const std::unique_ptr<kv::BlockPool> pool_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Command> commands_;
  std::weak_ptr<kv::SequenceCache> last_cache_;
  int64_t allowed_ = INT64_MAX;
  bool stopping_ = false;
  uint64_t beat_ = 0, steps_ = 0;
  std::list<Live> live_;  // of the loop
  std::thread loop_;
};

}  // namespace kvrelay::testing
