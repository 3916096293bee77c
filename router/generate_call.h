// One Generate RPC: joins the client's stream, a GenerateFlow and the calls on workers. All events of a request go
// through one mailbox, so the flow sees them one at a time whatever thread they come from.
//
// A client that does not read fills a queue; the flow holds its stream long before kUnsentMax messages wait, and the
// call is cancelled if they ever do. No other request notices.
//
// Thread-safe. Keeps itself alive until gRPC is done with it; calls on workers keep it alive too.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/rpc/stream_writer.h"
#include "router/client_quotas.h"
#include "router/generate_flow.h"
#include "router/mailbox.h"
#include "router/recent_requests.h"
#include "router/request_metrics.h"
#include "router/served_model.h"
#include "router/worker_registry.h"

namespace kvrelay::router {

// What all requests of a router share. All pointers must outlive the calls.
struct Backend {
  const ServedModel* model;
  const Clock* clock;
  WorkerRegistry* registry;
  AdmissionQueue* admission;
  PlacementMemory* memory;
  DecodeClient* decode_client;
  PrefillClient* prefill_client;
  RequestMetrics* metrics;
  RecentRequests* recent;
  FlowLimits limits = {};
};

// Who made a request.
struct Caller {
  std::string client;                   // for the log
  std::unique_ptr<QuotaTicket> ticket;  // null: the request is about to be refused
};

class GenerateCall final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                           public FlowSink,
                           public WorkerCalls,
                           public std::enable_shared_from_this<GenerateCall> {
 public:
  static constexpr size_t kUnsentMax = 1024;

  // `on_end` is called once, when the request needs no more work: at its end, not when the client has read it.
  static std::shared_ptr<GenerateCall> New(const Backend& backend, grpc::CallbackServerContext* context, Caller caller,
                                           std::function<void()> on_end);

  // Builds the flow's request (on the caller's thread: it may take milliseconds) and starts the flow.
  void Prepare(const v1::GenerateRequest& request);
  // Ends the request without a flow.
  void Refuse(const absl::Status& status);
  void Tick();
  void Wake();

  // FlowSink; called by the flow.
  void Send(v1::GenerateResponse response) override;
  size_t Unread() const override { return writer_.waiting(); }
  void End(const absl::Status& status) override;
  // WorkerCalls; called by the flow.
  std::unique_ptr<DecodeCall> OpenDecode(CallId id, const Worker& worker) override;
  std::unique_ptr<PrefillCall> OpenPrefill(CallId id, const Worker& worker,
                                           const wire::PrefillRequest& request) override;

  // gRPC.
  void OnWriteDone(bool ok) override { writer_.OnWriteDone(ok); }
  void OnCancel() override;
  void OnDone() override;

 private:
  class ToDecode;
  class ToPrefill;
  GenerateCall(const Backend& backend, grpc::CallbackServerContext* context, Caller caller,
               std::function<void()> on_end);
  void Post(std::function<void(GenerateFlow&)> event);
  void Abort(absl::Status status);

  const Backend backend_;
  const absl::Duration arrival_;
  std::function<void()> on_end_;
  rpc::StreamWriter<GenerateCall, v1::GenerateResponse> writer_;
  std::shared_ptr<GenerateCall> self_;

  Mailbox mailbox_;
  // All below are touched inside the mailbox only.
  RequestMetrics::Request metrics_;
  RecentRequests::Request recent_;
  Caller caller_;
  std::string request_id_;
  std::optional<GenerateFlow> flow_;
  bool ended_ = false;
};

}  // namespace kvrelay::router
