#include "cli/json.h"

#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/options.h"

namespace kvrelay::cli {

std::string ToJsonLine(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string line;
  const auto status = google::protobuf::util::MessageToJsonString(message, &line, options);
  if (!status.ok()) line = nlohmann::json{{"invalid_message", status.ToString()}}.dump();
  return line + '\n';
}

std::string ComparisonLine(const std::vector<TraceRecord>& records) {
  const Comparison comparison = Compare(records);
  nlohmann::json fields = {{"complete", comparison.complete}, {"identical", comparison.identical}};
  if (!comparison.difference.empty()) fields["difference"] = comparison.difference;
  for (const TraceRecord& record : records) {
    if (record.end.ok()) fields["total_ms"][ExecutionName(record.asked)] = record.TotalMilliseconds();
  }
  return nlohmann::json{{"comparison", fields}}.dump() + '\n';
}

std::string ResumedLine(uint32_t resumes, const std::string& address, uint64_t tokens) {
  const nlohmann::json fields = {{"count", resumes}, {"address", address}, {"tokens", tokens}};
  return nlohmann::json{{"resumed", fields}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

absl::StatusOr<std::vector<std::string>> RoutersOfEndpoints(const std::string& text, const std::string& path) {
  const nlohmann::json endpoints = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!endpoints.is_object() || !endpoints.contains("grpc") || !endpoints["grpc"].is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a JSON object with a string 'grpc'"));
  }
  std::vector<std::string> addresses = {endpoints["grpc"].get<std::string>()};
  for (const nlohmann::json& process : endpoints.value("processes", nlohmann::json::array())) {
    if (process.is_object() && process.value("role", nlohmann::json()) == "router" && process.contains("address") &&
        process["address"].is_string()) {
      addresses.push_back(process["address"].get<std::string>());
    }
  }
  return addresses;
}

}  // namespace kvrelay::cli
