// How GenerateFlow treats a client that takes its messages more slowly than they come: the decode worker holds the
// stream, keeping its room, until the client has caught up. Only this stream waits.
#include "absl/strings/str_cat.h"
#include "common/base/planted_bug.h"
#include "router/generate_flow.h"

namespace kvrelay::router {

void GenerateFlow::MindClient() {
  const size_t unread = deps_.sink->Unread();
  const absl::Duration now = deps_.clock->Now();
  if (unread < unread_ || !client_behind_) unread_since_ = now;
  unread_ = unread;
  if (!client_behind_ && unread >= deps_.limits.unread_pause) {
    client_behind_ = true;
    SendHold();
  } else if (client_behind_ && unread <= deps_.limits.unread_resume) {
    client_behind_ = false;
    if (!KV_PLANTED(client_left_waiting)) SendHold();
  } else if (client_behind_ && now - unread_since_ > deps_.limits.unread_timeout) {
    End(absl::ResourceExhaustedError(absl::StrCat("the client has taken none of ", unread, " messages for ",
                                                  absl::FormatDuration(deps_.limits.unread_timeout))));
  }
}

void GenerateFlow::SendHold() {
  if (decode_call_ == nullptr) return;
  wire::DecodeRequest request;
  if (client_behind_) {
    request.mutable_hold();
  } else {
    request.mutable_resume();
  }
  decode_call_->Send(std::move(request));
}

}  // namespace kvrelay::router
