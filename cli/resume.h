// What has arrived of one generation, and the request with which another router goes on after the stream broke, so that
// the events of all calls together are those of one undisturbed stream: no token lost, repeated or changed.
//
// `resume` repeats all tokens received but the last. The next router selects that one again; here it is compared with
// what had come, and dropped. So one rule holds wherever a stream breaks: it may break after its very last token, which
// `resume` must not repeat (that request has ended), but whose end, with the text that was held back, is still to come.
// Text needs no care: routers decode the tokens of `resume` again, so half a character and what may begin a stop string
// are held back there as they were before. And a router behind which another model runs is found out.
//
// No I/O; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/support/status.h"
#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::cli {

class ResumableStream {
 public:
  explicit ResumableStream(v1::GenerateRequest request) : request_(std::move(request)) {}

  // The request of the next call. Events are those of that call from now on.
  v1::GenerateRequest NextRequest();

  // Takes one event. True: it is news, and belongs to the output (runs are numbered through); false: a repetition.
  // DATA_LOSS if it does not go on where the earlier calls ended.
  absl::StatusOr<bool> Take(v1::GenerateResponse* event);

  // Whether a call that ended with `status`, and which nobody here cancelled, may be followed by another one.
  bool GoesOnAfter(const grpc::Status& status) const;

  bool started() const { return started_.has_value(); }
  bool finished() const { return finished_; }
  uint64_t tokens() const { return ids_.size(); }  // received, each counted once
  uint32_t resumes() const { return resumes_; }    // calls that took up what another had begun

 private:
  absl::StatusOr<bool> TakeStarted(const v1::Started& started);
  absl::StatusOr<bool> TakeToken(const v1::Token& token);

  const v1::GenerateRequest request_;
  std::optional<v1::Started> started_;
  std::vector<uint32_t> ids_;
  v1::Token last_;           // the last one received
  uint64_t next_ = 0;        // index of the next token of this call
  bool call_began_ = false;  // this call has sent an event
  uint32_t runs_ = 0;
  uint32_t resumes_ = 0;
  bool finished_ = false;
};

}  // namespace kvrelay::cli
