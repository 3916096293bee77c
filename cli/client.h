// The client's end of kvrelay.v1.GenerationService: one channel, calls that Ctrl-C and a deadline end. One call at a
// time; not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cli/interrupt.h"
#include "grpcpp/grpcpp.h"
#include "kvrelay/v1/generation.grpc.pb.h"

namespace kvrelay::cli {

using Stub = v1::GenerationService::StubInterface;

// How a call ended.
struct CallEnd {
  grpc::Status status;
  bool interrupted = false;    // Ctrl-C cancelled it
  bool output_closed = false;  // the handler refused an event
  uint64_t tokens = 0;         // Token events received; 0 for unary calls

  bool ok() const { return status.ok() && !interrupted && !output_closed; }
};

// Where the router is and how to talk to it.
struct Connection {
  std::string address;                                    // HOST:PORT or a gRPC target such as unix:/path
  std::shared_ptr<grpc::ChannelCredentials> credentials;  // TLS or plaintext
  bool tls = false;                                       // which of both
  std::string token = {};                                 // sent with each call; empty: none
};

class Client {
 public:
  // `deadline_ms` bounds each call; 0: no bound. Does not connect yet. REQUIRES: `interrupt` outlives this object.
  Client(Connection connection, int64_t deadline_ms, Interrupt* interrupt);

  // One unary call, for example Call(&Stub::Tokenize, request, &response).
  template <typename Request, typename Response>
  CallEnd Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), const Request& request,
               Response* response) {
    grpc::ClientContext context;
    Prepare(&context);
    const Interrupt::Scope scope(interrupt_, &context);
    CallEnd end;
    end.status = (stub_.get()->*method)(&context, request, response);
    end.interrupted = !end.status.ok() && scope.cancelled();
    return end;
  }

  // Streams one generation to `on_event`; when that returns false the call is cancelled and `output_closed` is set.
  // A stream that ends with OK but without `finished` becomes an INTERNAL status.
  CallEnd Generate(const v1::GenerateRequest& request,
                   const std::function<bool(const v1::GenerateResponse&)>& on_event);

  const std::string& address() const { return connection_.address; }
  bool tls() const { return connection_.tls; }

 private:
  void Prepare(grpc::ClientContext* context) const;

  const Connection connection_;
  const int64_t deadline_ms_;
  Interrupt* const interrupt_;
  const std::unique_ptr<v1::GenerationService::Stub> stub_;
};

}  // namespace kvrelay::cli
