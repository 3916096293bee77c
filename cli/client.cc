#include "cli/client.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_mapping.h"
#include "grpc/support/time.h"

namespace kvrelay::cli {
namespace {

// A router that takes a connection but does not answer on it counts as not reached after this time.
constexpr int kConnectLimitMs = 3000;
// The largest answer is Tokenize of 1 MiB of text: up to a million ids and pieces.
constexpr int kMaxReceiveBytes = 16 << 20;

std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                       const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, absl::ToInt64Milliseconds(rpc::kKeepaliveTime));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, absl::ToInt64Milliseconds(rpc::kKeepaliveTimeout));
  // A stream without tokens for a while is to be watched all the same.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // `wait` asks a service that is still starting: retry soon, not after the default's growing pauses.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectLimitMs);
  arguments.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace

Client::Client(Connection connection, int64_t deadline_ms, Interrupt* interrupt, ResumeLimits limits)
    : connection_(std::move(connection)), deadline_ms_(deadline_ms), interrupt_(interrupt), limits_(limits) {
  KV_CHECK(!connection_.addresses.empty(), "a client needs a router");
  for (const std::string& address : connection_.addresses) {
    stubs_.push_back(v1::GenerationService::NewStub(Connect(address, connection_.credentials)));
  }
}

absl::Duration Client::GiveUp() const {
  if (deadline_ms_ == 0) return absl::InfiniteDuration();
  return Clock::Real()->Now() + absl::Milliseconds(deadline_ms_);
}

void Client::Prepare(absl::Duration give_up, grpc::ClientContext* context) const {
  if (!connection_.token.empty()) context->AddMetadata("authorization", "Bearer " + connection_.token);
  if (give_up == absl::InfiniteDuration()) return;
  // A time span: gRPC counts it from the start of the call.
  const int64_t left_ms = absl::ToInt64Milliseconds(give_up - Clock::Real()->Now());
  context->set_deadline(gpr_time_from_millis(std::max(int64_t{0}, left_ms), GPR_TIMESPAN));
}

absl::Duration Client::PauseAfter(size_t rounds) const {
  absl::Duration pause = limits_.first_pause;
  for (size_t i = 1; i < rounds && pause < limits_.longest_pause; ++i) pause *= 2;
  return std::min(pause, limits_.longest_pause);
}

CallEnd Client::Generate(const v1::GenerateRequest& request, const OnEvent& on_event, const OnResume& on_resume) {
  Interrupt::Scope scope(interrupt_);
  const absl::Duration give_up = GiveUp();
  ResumableStream stream(request);
  CallEnd end;
  size_t fruitless = 0;  // calls without a new token
  while (true) {
    const uint64_t before = stream.tokens();
    ReadStream(give_up, on_event, on_resume, &stream, &scope, &end);
    if (end.interrupted || end.output_closed || !stream.GoesOnAfter(end.status)) return end;
    fruitless = stream.tokens() > before ? 1 : fruitless + 1;
    NextRouter();
    if (fruitless % stubs_.size() != 0) continue;
    const size_t rounds = fruitless / stubs_.size();
    if (rounds >= static_cast<size_t>(stream.started() ? limits_.rounds : limits_.rounds_before_started)) return end;
    if (!scope.Pause(std::min(PauseAfter(rounds), give_up - Clock::Real()->Now()))) {
      end.interrupted = true;
      return end;
    }
  }
}

void Client::ReadStream(absl::Duration give_up, const OnEvent& on_event, const OnResume& on_resume,
                        ResumableStream* stream, Interrupt::Scope* scope, CallEnd* end) {
  grpc::ClientContext context;
  Prepare(give_up, &context);
  scope->SetCall(&context);
  const auto reader = stubs_[router_]->Generate(&context, stream->NextRequest());
  absl::Status broken;
  v1::GenerateResponse event;
  while (reader->Read(&event)) {
    if (end->output_closed || !broken.ok()) continue;  // cancelled; what is on the way is of no interest
    const absl::StatusOr<bool> news = stream->Take(&event);
    broken = news.status();
    if (news.ok() && *news) end->output_closed = !on_event(event);
    if (end->output_closed || !broken.ok()) context.TryCancel();
    if (stream->resumes() != std::exchange(end->resumes, stream->resumes()) && on_resume) {
      on_resume(stream->resumes(), stream->tokens());
    }
  }
  end->status = reader->Finish();
  scope->SetCall(nullptr);
  end->tokens = stream->tokens();
  end->interrupted = !end->status.ok() && scope->cancelled();
  if (!broken.ok()) {
    end->status = rpc::ToGrpc(broken);
  } else if (stream->finished() && end->status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    end->status = grpc::Status::OK;  // the router went away after its last word
  } else if (end->status.ok() && !stream->finished()) {
    end->status = grpc::Status(grpc::StatusCode::INTERNAL, "the stream ended without its last message, 'finished'");
  }
}

}  // namespace kvrelay::cli
