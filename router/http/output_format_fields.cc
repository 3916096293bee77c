#include "router/http/output_format_fields.h"

#include <optional>
#include <string_view>

#include "router/http/json_text.h"

namespace kvrelay::http {
namespace {

void ReadResponseFormat(Fields& fields, const std::string& body, v1::GenerateRequest& request) {
  const Json* const format = fields.Find("response_format");
  if (format == nullptr) return;
  if (!format->is_object()) return fields.Fail("response_format", "an object");
  Fields inner(*format, fields.Path("response_format."));
  const std::string type = inner.String("type").value_or("");
  if (inner.error()) return fields.Fail(*inner.error());
  if (type == "text") return;
  if (type == "json_object") return request.set_json_schema(R"({"type":"object"})");
  if (type != "json_schema") return fields.Fail("response_format.type", "text, json_object or json_schema");
  const Json* const holder = inner.Find("json_schema");
  const bool is_whole = holder != nullptr && holder->is_object() && holder->contains("schema") &&
                        (holder->at("schema").is_object() || holder->at("schema").is_boolean());
  if (!is_whole) return fields.Fail("response_format.json_schema", "an object with a schema");
  request.set_json_schema(JsonTextAt(body, {"response_format", "json_schema", "schema"}));
}

// One of the texts, nothing else: in the syntax of regular expressions.
std::optional<std::string> RegexOf(const Json& choice) {
  if (!choice.is_array() || choice.empty()) return std::nullopt;
  std::string regex;
  for (const Json& text : choice) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty()) return std::nullopt;
    if (!regex.empty()) regex += '|';
    for (const char c : text.get_ref<const std::string&>()) {
      if (std::string_view("\\.+*?()|[]{}^$#&-~/<>").find(c) != std::string_view::npos) regex += '\\';
      regex += c;
    }
  }
  return regex;
}

void ReadStructuredOutputs(Fields& fields, const std::string& body, v1::GenerateRequest& request) {
  const Json* const wanted = fields.Find("structured_outputs");
  if (wanted == nullptr) return;
  if (!wanted->is_object()) return fields.Fail("structured_outputs", "an object");
  Fields inner(*wanted, fields.Path("structured_outputs."));
  int kinds = 0;
  if (const Json* const schema = inner.Find("json")) {
    ++kinds;
    if (!schema->is_object() && !schema->is_string()) inner.Fail("json", "a schema: an object, or its text");
    request.set_json_schema(schema->is_string() ? schema->get<std::string>()
                                                : JsonTextAt(body, {"structured_outputs", "json"}));
  }
  if (const auto regex = inner.String("regex")) ++kinds, request.set_regex(*regex);
  if (const auto grammar = inner.String("grammar")) ++kinds, request.set_lark_grammar(*grammar);
  if (const Json* const choice = inner.Find("choice")) {
    ++kinds;
    const std::optional<std::string> regex = RegexOf(*choice);
    regex ? request.set_regex(*regex) : inner.Fail("choice", "a list of texts, none of them empty");
  }
  for (const auto& [name, value] : wanted->items()) {
    const bool known = name == "json" || name == "regex" || name == "grammar" || name == "choice";
    if (!known && !value.is_null()) inner.Fail(name.c_str(), "left out: it is not supported by this service");
  }
  if (inner.error()) return fields.Fail(*inner.error());
  if (kinds != 1) fields.Fail("structured_outputs", "one of json, regex, grammar and choice");
}

}  // namespace

void ReadOutputFormat(Fields& fields, const std::string& body, v1::GenerateRequest& request) {
  ReadResponseFormat(fields, body, request);
  const bool is_set = request.output_format_case() != v1::GenerateRequest::OUTPUT_FORMAT_NOT_SET;
  if (is_set && fields.Find("structured_outputs") != nullptr) {
    return fields.Fail("structured_outputs", "left out where response_format asks for a format");
  }
  ReadStructuredOutputs(fields, body, request);
}

}  // namespace kvrelay::http
