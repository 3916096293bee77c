// absl::Duration to and from google.protobuf.Duration.
#pragma once

#include <google/protobuf/duration.pb.h>

#include "absl/time/time.h"

namespace kvrelay::rpc {

inline google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return proto;
}

inline absl::Duration FromProto(const google::protobuf::Duration& proto) {
  return absl::Seconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

}  // namespace kvrelay::rpc
