#include "cli/json.h"

#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>

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

std::string ResumedLine(uint32_t resumes, const std::string& address, uint64_t tokens) {
  const nlohmann::json fields = {{"count", resumes}, {"address", address}, {"tokens", tokens}};
  return nlohmann::json{{"resumed", fields}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace kvrelay::cli
