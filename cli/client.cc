#include "cli/client.h"

#include <utility>

#include "grpc/support/time.h"

namespace kvrelay::cli {
namespace {

// A dead peer is noticed within a minute without annoying a server that limits pings.
constexpr int kKeepaliveMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// The largest answer is Tokenize of 1 MiB of text: up to a million ids and pieces.
constexpr int kMaxReceiveBytes = 16 << 20;

std::shared_ptr<grpc::Channel> Connect(const Connection& connection) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // `wait` asks a service that is still starting: retry soon, not after the default's growing pauses.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  return grpc::CreateCustomChannel(connection.address, connection.credentials, arguments);
}

}  // namespace

Client::Client(Connection connection, int64_t deadline_ms, Interrupt* interrupt)
    : connection_(std::move(connection)),
      deadline_ms_(deadline_ms),
      interrupt_(interrupt),
      stub_(v1::GenerationService::NewStub(Connect(connection_))) {}

void Client::Prepare(grpc::ClientContext* context) const {
  if (!connection_.token.empty()) context->AddMetadata("authorization", "Bearer " + connection_.token);
  // A time span: gRPC counts it from the start of the call.
  if (deadline_ms_ > 0) context->set_deadline(gpr_time_from_millis(deadline_ms_, GPR_TIMESPAN));
}

CallEnd Client::Generate(const v1::GenerateRequest& request,
                         const std::function<bool(const v1::GenerateResponse&)>& on_event) {
  grpc::ClientContext context;
  Prepare(&context);
  const Interrupt::Scope scope(interrupt_, &context);
  CallEnd end;
  bool finished = false;
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (response.has_token()) ++end.tokens;
    finished = finished || response.has_finished();
    if (!end.output_closed && !on_event(response)) {
      end.output_closed = true;
      context.TryCancel();
    }
  }
  end.status = reader->Finish();
  end.interrupted = !end.status.ok() && scope.cancelled();
  if (end.status.ok() && !finished) {
    end.status = grpc::Status(grpc::StatusCode::INTERNAL, "the stream ended without its last message, 'finished'");
  }
  return end;
}

}  // namespace kvrelay::cli
