// The client's end of kvrelay.v1.GenerationService: one channel to each router, calls that Ctrl-C and a deadline end.
// One call at a time; not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/interrupt.h"
#include "cli/resume.h"
#include "grpcpp/grpcpp.h"
#include "kvrelay/v1/generation.grpc.pb.h"

namespace kvrelay::cli {

using Stub = v1::GenerationService::StubInterface;

// How a call ended.
struct CallEnd {
  grpc::Status status;
  bool interrupted = false;    // Ctrl-C cancelled it
  bool output_closed = false;  // the handler refused an event
  uint64_t tokens = 0;         // tokens received; 0 for unary calls
  uint32_t resumes = 0;        // times another call went on with the stream

  bool ok() const { return status.ok() && !interrupted && !output_closed; }
};

// Where the routers are and how to talk to each of them.
struct Connection {
  std::vector<std::string> addresses;  // HOST:PORT or a gRPC target such as unix:/path
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();  // TLS or plaintext
  bool tls = false;                                                                            // which of both
  std::string token = {};  // sent with each call; empty: none
};

// How long Generate goes on without a new token. All routers in turn are one round.
struct ResumeLimits {
  // A request of which nothing has arrived is given up soon: its sender learns of a wrong address at once.
  int rounds_before_started = 3;
  // A stream that broke is worth more: with one router, which takes its time to restart, these pauses add up to 23 s.
  int rounds = 16;
  // After the first round; doubled after each.
  absl::Duration first_pause = absl::Milliseconds(100);
  absl::Duration longest_pause = absl::Seconds(2);
};

class Client {
 public:
  // `deadline_ms` bounds each call, with all that follows it when it is tried again; 0: no bound. Does not connect yet.
  // REQUIRES: at least one address; `interrupt` outlives this object.
  Client(Connection connection, int64_t deadline_ms, Interrupt* interrupt, ResumeLimits limits = {});

  // One unary call, for example Call(&Stub::Tokenize, request, &response). Asks the next router where one cannot be
  // reached, each once.
  template <typename Request, typename Response>
  CallEnd Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), const Request& request,
               Response* response) {
    Interrupt::Scope scope(interrupt_);
    const absl::Duration give_up = GiveUp();
    CallEnd end;
    for (size_t tries = 1;; ++tries) {
      grpc::ClientContext context;
      Prepare(give_up, &context);
      scope.SetCall(&context);
      end.status = (stubs_[router_].get()->*method)(&context, request, response);
      scope.SetCall(nullptr);
      end.interrupted = !end.status.ok() && scope.cancelled();
      const bool unreached = end.status.error_code() == grpc::StatusCode::UNAVAILABLE && !end.interrupted;
      if (!unreached || tries == stubs_.size()) return end;
      NextRouter();
    }
  }

  using OnEvent = std::function<bool(const v1::GenerateResponse&)>;
  // `resumes` as in CallEnd, `tokens` received before.
  using OnResume = std::function<void(uint32_t resumes, uint64_t tokens)>;

  // Streams one generation to `on_event`; when that returns false the call is cancelled and `output_closed` is set.
  // Where a stream breaks, it goes on at the next router, and after the last at the first again, within the limits; the
  // events are those of one undisturbed stream, but `finished` counts and times what the last router did. `on_resume`
  // is told of each time. A stream that ends with OK but without `finished` becomes an INTERNAL status.
  CallEnd Generate(const v1::GenerateRequest& request, const OnEvent& on_event, const OnResume& on_resume = nullptr);

  // For callers with many calls of their own at a time: the deadline and token of one, and the stub of router `index`.
  // REQUIRES: index < addresses().size().
  void Prepare(grpc::ClientContext* context) const { Prepare(GiveUp(), context); }
  Stub& stub(size_t index) const { return *stubs_[index]; }
  Interrupt* interrupt() const { return interrupt_; }

  // That of the router which the last call asked; before any call, of the first.
  const std::string& address() const { return connection_.addresses[router_]; }
  const std::vector<std::string>& addresses() const { return connection_.addresses; }
  bool tls() const { return connection_.tls; }

 private:
  absl::Duration GiveUp() const;
  // Deadline and token of one call.
  void Prepare(absl::Duration give_up, grpc::ClientContext* context) const;
  void NextRouter() { router_ = (router_ + 1) % stubs_.size(); }
  absl::Duration PauseAfter(size_t rounds) const;
  // One call to the current router, as far as it goes.
  void ReadStream(absl::Duration give_up, const OnEvent& on_event, const OnResume& on_resume, ResumableStream* stream,
                  Interrupt::Scope* scope, CallEnd* end);

  const Connection connection_;
  const int64_t deadline_ms_;
  Interrupt* const interrupt_;
  const ResumeLimits limits_;
  std::vector<std::unique_ptr<v1::GenerationService::Stub>> stubs_;
  size_t router_ = 0;
};

}  // namespace kvrelay::cli
