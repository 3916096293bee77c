#include "cli/bench/load_run.h"

#include <algorithm>
#include <utility>

#include "grpc/support/time.h"

namespace kvrelay::cli::bench {

struct LoadRun::Call {
  enum class Step { kStarting, kReading, kFinishing };

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientAsyncReaderInterface<v1::GenerateResponse>> reader;
  Step step = Step::kStarting;
  v1::GenerateResponse response;
  grpc::Status status;
  bool finished = false;
  RequestRecord record;
};

LoadRun::LoadRun(const Client* client, Workload* workload, const LoadLimits& limits, const Clock* clock)
    : client_(client), workload_(workload), limits_(limits), clock_(clock) {}

LoadRun::~LoadRun() {
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) {
  }
}

RunResult LoadRun::Run(const std::function<bool()>& cancelled) {
  start_ = clock_->Now();
  Plan();
  bool stopped = false;
  while (next_ || !calls_.empty()) {
    StartDue();
    void* tag;
    bool ok;
    const auto deadline = gpr_time_from_nanos(absl::ToInt64Nanoseconds(Patience()), GPR_TIMESPAN);
    if (queue_.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::GOT_EVENT) {
      OnEvent(static_cast<Call*>(tag), ok);
    }
    if (!stopped && cancelled()) {
      stopped = true;
      CancelAll();
    }
  }
  result_.duration = Elapsed();
  return std::move(result_);
}

void LoadRun::Plan() {
  next_.reset();
  if (planned_ == limits_.requests) return;
  next_ = workload_->Next();
  ++planned_;
  if (std::max(next_->due, Elapsed()) >= limits_.duration) next_.reset();
}

void LoadRun::StartDue() {
  while (next_) {
    const absl::Duration now = Elapsed();
    if (limits_.concurrency > 0) {
      if (calls_.size() >= limits_.concurrency) return;
      if (now >= limits_.duration) return next_.reset();
      Start(now);
    } else {
      if (next_->due > now) return;
      Start(next_->due);
    }
    Plan();
  }
}

void LoadRun::Start(absl::Duration due) {
  auto owned = std::make_unique<Call>();
  Call* call = owned.get();
  calls_.emplace(call, std::move(owned));
  result_.in_flight_max = std::max(result_.in_flight_max, static_cast<uint32_t>(calls_.size()));
  client_->Prepare(&call->context);
  Stub& stub = client_->stub(static_cast<size_t>(planned_ - 1) % client_->addresses().size());
  call->reader = stub.PrepareAsyncGenerate(&call->context, next_->request, &queue_);
  call->record.due = due;
  call->record.sent = Elapsed();
  call->reader->StartCall(call);
}

absl::Duration LoadRun::Patience() const {
  constexpr absl::Duration kLookAround = absl::Milliseconds(100);
  if (!next_ || limits_.concurrency > 0) return kLookAround;
  return std::clamp(next_->due - Elapsed(), absl::ZeroDuration(), kLookAround);
}

void LoadRun::OnEvent(Call* call, bool ok) {
  if (call->step == Call::Step::kFinishing) return OnEnd(call);
  if (!ok) {
    call->step = Call::Step::kFinishing;
    return call->reader->Finish(&call->status, call);
  }
  if (call->step == Call::Step::kReading) OnMessage(call);
  call->step = Call::Step::kReading;
  call->reader->Read(&call->response, call);
}

void LoadRun::OnMessage(Call* call) {
  RequestRecord& record = call->record;
  if (call->response.has_token()) record.tokens.push_back(Elapsed());
  if (call->response.has_started()) record.prompt_tokens = call->response.started().prompt_tokens();
  if (call->response.has_finished()) {
    record.timings = call->response.finished().timings();
    call->finished = true;
  }
}

void LoadRun::OnEnd(Call* call) {
  if (call->status.ok() && !call->finished) {
    call->status = grpc::Status(grpc::StatusCode::INTERNAL, "the stream ended without its last message, 'finished'");
  }
  RequestRecord& record = call->record;
  record.ended = Elapsed();
  record.code = call->status.error_code();
  record.error = call->status.error_message();
  result_.records.push_back(std::move(record));
  calls_.erase(call);
}

void LoadRun::CancelAll() {
  next_.reset();
  planned_ = limits_.requests;
  for (const auto& [call, owned] : calls_) call->context.TryCancel();
}

}  // namespace kvrelay::cli::bench
