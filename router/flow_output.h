// What the client of one request sees: Started, Token, RunTrace and Finished messages, with text, times and numbers
// filled in.
//
// Text is decided here and nowhere else: bytes of tokens become whole UTF-8, stop strings are matched. Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/text/stream_decoder.h"
#include "kvrelay/v1/generation.pb.h"
#include "kvrelay/worker/v1/decode.pb.h"
#include "kvrelay/worker/v1/prefill.pb.h"
#include "router/placement.h"
#include "router/request_accounting.h"

namespace kvrelay::router {

// One validated request.
struct FlowRequest {
  std::string request_id;
  wire::GenerationSpec spec;  // token_ids: prompt, then the tokens of an interrupted stream
  v1::Execution execution = v1::EXECUTION_UNSPECIFIED;
  std::vector<std::string> stop;
  bool include_stop = false;     // the stop string that matched is emitted
  bool include_control = false;  // control tokens have text
  absl::Duration arrival;        // on the flow's clock

  uint32_t resumed() const { return static_cast<uint32_t>(spec.token_ids_size()) - spec.prompt_length(); }
};

// Where the messages go. Must not block and must not call back into the flow.
class FlowSink {
 public:
  virtual ~FlowSink() = default;
  virtual void Send(v1::GenerateResponse response) = 0;
  // Messages that the client has not taken yet.
  virtual size_t Unread() const = 0;
  // Last call, exactly once.
  virtual void End(const absl::Status& status) = 0;
};

// Raw bytes of a token, as text::Tokenizer::TokenBytes.
using TokenBytes = std::function<std::string(int32_t id, bool include_control)>;

class FlowOutput {
 public:
  // All pointers must outlive the output.
  FlowOutput(const FlowRequest* request, RequestAccounting* accounting, TokenBytes token_bytes, FlowSink* sink,
             const Clock* clock);

  // The tokens of an interrupted stream, for the text that was held back there. INVALID_ARGUMENT if one of them
  // completed a stop string, for then that stream had ended.
  absl::Status Resume();

  // First call to a worker: the end of the router's queue.
  void OnPlaced();
  // Sends Started once; later calls do nothing.
  void Start(const Plan& plan);
  // Sends a token. True if it completed a stop string.
  bool Token(const wire::Selected& selected);

  // Runs in the order of their tokens. The run of a handoff is complete only when its bytes are known, so from HoldRuns
  // on runs wait for ReleaseRuns, which tells what was shipped; those of the prefill worker go first.
  void HoldRuns() { runs_held_ = true; }
  void PrefillRun(v1::RunTrace run);
  void DecodeRun(v1::RunTrace run);
  void ReleaseRuns(uint64_t bytes_shipped, std::vector<v1::Shipment> shipments = {});

  void SetPrefillTimes(const wire::PrefillDone& done);
  void SetLocalTimes(const wire::Ended& ended);

  // How the request ended, for Finish.
  struct End {
    wire::EndReason reason = wire::END_REASON_UNSPECIFIED;  // unspecified: a stop string
    uint32_t token_id = 0;                                  // the last token
    uint32_t attempts = 0;
    uint32_t replans = 0;
    uint32_t moves = 0;
    uint64_t kv_bytes_shipped = 0;
    uint32_t cached = 0;
  };
  // Sends Finished. Runs still held are sent before it.
  void Finish(const End& end);

 private:
  absl::Duration SinceArrival() const { return clock_->Now() - request_->arrival; }
  void Send(v1::GenerateResponse response);
  void SendRuns(std::vector<v1::RunTrace>* runs);
  v1::Timings Times() const;

  const FlowRequest* const request_;
  RequestAccounting* const accounting_;
  const TokenBytes token_bytes_;
  FlowSink* const sink_;
  const Clock* const clock_;

  text::StreamDecoder decoder_;
  bool started_ = false;
  std::string stop_;  // the stop string that matched
  bool stopped_ = false;

  bool runs_held_ = false;
  std::vector<v1::RunTrace> prefill_runs_;
  std::vector<v1::RunTrace> decode_runs_;
  uint32_t runs_sent_ = 0;

  v1::Timings worker_times_;
  absl::Duration placed_;  // after arrival, as the next two
  absl::Duration first_token_;
  absl::Duration last_token_;
};

}  // namespace kvrelay::router
