#include "cli/resume.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace kvrelay::cli {
namespace {

absl::Status Different(const std::string& what) {
  return absl::DataLossError(absl::StrCat("another router goes on with ", what, ": is it of the same service?"));
}

}  // namespace

v1::GenerateRequest ResumableStream::NextRequest() {
  call_began_ = false;
  next_ = ids_.empty() ? 0 : ids_.size() - 1;
  v1::GenerateRequest request = request_;
  if (!started_) return request;
  request.set_request_id(started_->request_id());  // one label in the logs of all routers
  v1::Resume& resume = *request.mutable_resume();
  resume.set_seed(started_->seed());
  resume.mutable_token_ids()->Add(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(next_));
  return request;
}

absl::StatusOr<bool> ResumableStream::Take(v1::GenerateResponse* event) {
  call_began_ = true;
  switch (event->event_case()) {
    case v1::GenerateResponse::kStarted:
      return TakeStarted(event->started());
    case v1::GenerateResponse::kToken:
      return TakeToken(event->token());
    case v1::GenerateResponse::kRun:
      event->mutable_run()->set_run(++runs_);
      return true;
    case v1::GenerateResponse::kFinished:
      if (next_ < ids_.size()) return Different("the end of the stream one token too early");
      return std::exchange(finished_, true) ? Different("a second end of the stream") : absl::StatusOr<bool>(true);
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;
  }
  return true;
}

absl::StatusOr<bool> ResumableStream::TakeStarted(const v1::Started& started) {
  if (!started_) {
    started_ = started;
    return true;
  }
  if (started.seed() != started_->seed() || started.prompt_tokens() != started_->prompt_tokens()) {
    return Different(absl::StrCat("a prompt of ", started.prompt_tokens(), " tokens and seed ", started.seed(),
                                  " instead of ", started_->prompt_tokens(), " and ", started_->seed()));
  }
  ++resumes_;
  return false;
}

absl::StatusOr<bool> ResumableStream::TakeToken(const v1::Token& token) {
  if (!started_) return absl::InternalError("a token came before 'started'");
  if (token.index() != next_) {
    return absl::DataLossError(absl::StrCat("token ", token.index(), " came instead of token ", next_));
  }
  if (next_++ < ids_.size()) {
    if (token.id() == last_.id() && token.text() == last_.text()) return false;
    return Different(absl::StrCat("token ", token.index(), " = ", token.id(), " instead of ", last_.id()));
  }
  ids_.push_back(token.id());
  last_ = token;
  return true;
}

bool ResumableStream::GoesOnAfter(const grpc::Status& status) const {
  if (finished_) return false;
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:  // not reached, killed, connection lost, its grace over, or it says so
      return true;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      // A new request is told that there is no room; one that was under way waits for its place.
      return started() && !call_began_;
    default:
      return false;
  }
}

}  // namespace kvrelay::cli
