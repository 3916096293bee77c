#include "tests/sim/kv_link.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/worker.h"

namespace kvrelay::sim {
namespace {

using worker::v1::KvFrame;
using worker::v1::ReceiveKvRequest;

class Link final : public kv_wire::KvLink, public std::enable_shared_from_this<Link> {
 public:
  Link(Network* network, Observer* observer, Process* process, int node,
       std::shared_ptr<kv_wire::KvLinkListener> listener)
      : world_(network->world()),
        observer_(*observer),
        process_(process),
        listener_(std::move(listener)),
        receipt_(std::make_shared<wire::ReceiveKvResponse>()),
        waits_for_receiver_(world_.Chance(0.3)),
        call_(network->Open(process, node)) {}

  void Start() {
    call_->on_end = [self = shared_from_this()](const absl::Status& status) { self->OnEnd(status); };
    call_->ToServer([self = shared_from_this()] {
      self->server_ = static_cast<DecodeProcess*>(self->call_->server())->ReceiveKv(self->call_, self->receipt_);
    });
  }

  void Write(const ReceiveKvRequest& message, bool last) override {
    if (message.has_header()) handoff_id_ = message.header().handoff_id();
    if (!message.has_frame()) {
      Ship(message, /*answered=*/true);
      if (kept_) Ship(*std::exchange(kept_, nullptr), /*answered=*/false);
      return;
    }
    const auto fault = observer_.frame_faults.find(handoff_id_);
    if (kept_ != nullptr || fault == observer_.frame_faults.end()) {
      Ship(message, /*answered=*/true);
      if (kept_) Ship(*std::exchange(kept_, nullptr), /*answered=*/false);
      return;
    }
    const FrameFault kind = fault->second;
    observer_.frame_faults.erase(fault);
    observer_.damaged.insert(handoff_id_);
    world_.Trace(process_->name(), "a frame is damaged");
    ShipDamaged(message, kind);
  }

  void Cancel() override { call_->Cancel(); }

 private:
  // `answered`: the sender is told that it is written.
  void Ship(const ReceiveKvRequest& message, bool answered) {
    call_->ToServer([self = shared_from_this(), message, answered] {
      self->server_->OnMessage(message);
      if (answered && self->waits_for_receiver_) self->call_->ToClient([self] { self->Written(); });
    });
    if (answered && !waits_for_receiver_) Answer();
  }
  void Answer() {
    world_.After(absl::Microseconds(50), process_, [self = shared_from_this()] { self->Written(); });
  }
  void Written() {
    if (const auto listener = listener_) listener->OnWritten(true);
  }

  void ShipDamaged(ReceiveKvRequest message, FrameFault kind) {
    KvFrame& frame = *message.mutable_frame();
    switch (kind) {
      case FrameFault::kDrop:
        return Answer();
      case FrameFault::kSwap:
        kept_ = std::make_unique<ReceiveKvRequest>(message);
        return Answer();
      case FrameFault::kRepeat:
        Ship(message, /*answered=*/false);
        break;
      case FrameFault::kFlip:
        (*frame.mutable_payload())[world_.Pick(0, static_cast<int>(frame.payload().size()) - 1)] ^= 4;
        break;
      case FrameFault::kForeign:
        frame.set_layer(frame.layer() + static_cast<uint32_t>(world_.Pick(1, 3)));
        break;
    }
    Ship(message, /*answered=*/true);
  }

  void OnEnd(const absl::Status& status) {
    if (listener_ != nullptr) std::exchange(listener_, nullptr)->OnLinkEnded(status, *receipt_);
  }

  World& world_;
  Observer& observer_;
  Process* const process_;
  std::shared_ptr<kv_wire::KvLinkListener> listener_;
  const std::shared_ptr<wire::ReceiveKvResponse> receipt_;
  const bool waits_for_receiver_;
  const std::shared_ptr<Call> call_;
  std::shared_ptr<DecodeProcess::Messages> server_;
  std::string handoff_id_;
  std::unique_ptr<ReceiveKvRequest> kept_;  // overtaken by the next message
};

}  // namespace

std::shared_ptr<kv_wire::KvLink> Transport::Open(const std::string& address,
                                                 std::shared_ptr<kv_wire::KvLinkListener> listener) {
  auto link = std::make_shared<Link>(network_, observer_, process_, NodeOf(address), std::move(listener));
  link->Start();
  links_.push_back(link);
  return link;
}

void Transport::End() {
  for (const auto& weak : std::exchange(links_, {})) {
    if (const auto link = weak.lock()) link->Cancel();
  }
}

std::string AddressOf(int node) { return absl::StrCat("10.0.0.", node, ":7000"); }

int NodeOf(const std::string& address) { return std::atoi(address.c_str() + sizeof("10.0.0.") - 1); }

}  // namespace kvrelay::sim
