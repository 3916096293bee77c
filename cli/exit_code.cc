#include "cli/exit_code.h"

#include <iterator>

namespace kvrelay::cli {

int ExitCode(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return kExitOk;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return kExitUsage;
    case grpc::StatusCode::NOT_FOUND:
      return kExitNotFound;
    case grpc::StatusCode::UNAVAILABLE:
      return kExitUnavailable;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return kExitExhausted;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return kExitDeadline;
    default:
      return kExitOther;
  }
}

const char* CodeName(grpc::StatusCode code) {
  static constexpr const char* kNames[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto index = static_cast<unsigned>(code);
  return index < std::size(kNames) ? kNames[index] : "an undefined status code";
}

}  // namespace kvrelay::cli
