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

}  // namespace kvrelay::cli
