// Several generations at once, as a client of kvrelay.v1, seen by one thread: events of all of them come from one
// queue, and waiting has a bound, so that the thread can look after its own client in between.
//
// Used by one thread. Destroying it cancels what still runs.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kvrelay/v1/generation.grpc.pb.h"

namespace kvrelay::http {

// How long an HTTP client may be gone before who waits for its generations notices.
inline constexpr absl::Duration kClientLookInterval = absl::Milliseconds(50);

// Metadata of calls.
using Metadata = std::vector<std::pair<std::string, std::string>>;

class Generations {
 public:
  // Something happened to one of the generations.
  struct Event {
    size_t index;                     // of the request
    v1::GenerateResponse event = {};  // if it goes on
    bool ended = false;
    absl::Status status = {};  // if it ended
  };

  Generations(v1::GenerationService::Stub& stub, const Metadata& metadata,
              const std::vector<v1::GenerateRequest>& requests);
  ~Generations();
  Generations(const Generations&) = delete;

  // The next event; nothing if none came within `patience`. REQUIRES: not all have ended.
  std::optional<Event> Next(absl::Duration patience);
  bool all_ended() const { return running_ == 0; }

 private:
  enum class State { kStarting, kReading, kFinishing };
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncReader<v1::GenerateResponse>> reader;
    State state = State::kStarting;
    v1::GenerateResponse response;
    grpc::Status status;
  };

  // What gRPC's word on a call comes to; nothing if it is of no interest outside.
  std::optional<Event> On(size_t index, bool ok);

  grpc::CompletionQueue queue_;
  std::deque<Call> calls_;  // stay where they are
  size_t running_ = 0;
};

}  // namespace kvrelay::http
