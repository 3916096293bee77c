#include "common/rpc/status_mapping.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <string>
#include <string_view>

#include "absl/strings/cord.h"
#include "common/rpc/duration.h"

namespace kvrelay::rpc {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

// google.rpc.Status {1: code, 2: message, 3: repeated Any} and google.rpc.RetryInfo {1: Duration} are read and written
// by field number: two messages of one or three fields do not justify carrying googleapis.
constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr int kStatusCode = 1, kStatusMessage = 2, kStatusDetails = 3, kRetryDelay = 1;

std::string Serialize(const UnknownFieldSet& fields) {
  std::string bytes;
  fields.SerializeToString(&bytes);
  return bytes;
}

// Length of the valid UTF-8 sequence at the start of `bytes`, or 0.
size_t SequenceLength(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : (lead & 0xF0) == 0xE0        ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0 || bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and values above U+10FFFF.
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F)) return 0;
  if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) return 0;
  return length;
}

std::string CleanMessage(std::string_view message) {
  constexpr std::string_view kCut = "...";
  std::string clean;
  while (!message.empty()) {
    const size_t length = SequenceLength(message);
    const std::string_view next = length == 0 ? std::string_view("\xEF\xBF\xBD") : message.substr(0, length);
    if (clean.size() + next.size() > kMaxMessageBytes - kCut.size()) {
      return clean.append(kCut);
    }
    clean.append(next);
    message.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = CleanMessage({status.message().data(), status.message().size()});
  UnknownFieldSet rich;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    google::protobuf::Any detail;
    detail.set_type_url(std::string(url));
    detail.set_value(std::string(payload));
    rich.AddLengthDelimited(kStatusDetails, detail.SerializeAsString());
  });
  if (rich.empty()) return {static_cast<grpc::StatusCode>(status.code()), message};
  rich.AddVarint(kStatusCode, static_cast<uint64_t>(status.code()));
  rich.AddLengthDelimited(kStatusMessage, message);
  return {static_cast<grpc::StatusCode>(status.code()), message, Serialize(rich)};
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // Codes outside the known range become UNKNOWN, as gRPC itself prescribes.
  const int code = status.error_code();
  const bool known = code >= 1 && code <= 16;
  absl::Status result(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      CleanMessage(status.error_message()));
  UnknownFieldSet rich;
  if (!rich.ParseFromString(status.error_details())) return result;
  for (int i = 0; i < rich.field_count(); ++i) {
    const UnknownField& field = rich.field(i);
    google::protobuf::Any detail;
    if (field.number() == kStatusDetails && field.type() == UnknownField::TYPE_LENGTH_DELIMITED &&
        detail.ParseFromString(field.length_delimited())) {
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return result;
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  UnknownFieldSet info;
  info.AddLengthDelimited(kRetryDelay, ToProto(delay).SerializeAsString());
  status.SetPayload(kRetryInfoUrl, absl::Cord(Serialize(info)));
  return status;
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryInfoUrl);
  UnknownFieldSet info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload)) || info.field_count() == 0)
    return std::nullopt;
  const UnknownField& field = info.field(0);
  google::protobuf::Duration delay;
  if (field.number() != kRetryDelay || field.type() != UnknownField::TYPE_LENGTH_DELIMITED ||
      !delay.ParseFromString(field.length_delimited())) {
    return std::nullopt;
  }
  return FromProto(delay);
}

}  // namespace kvrelay::rpc
