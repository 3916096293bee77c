// What an HTTP request wants its output to look like: OpenAI's response_format, and vLLM's structured_outputs.
//
// Pure; thread-safe.
#pragma once

#include <string>

#include "kvrelay/v1/generation.pb.h"
#include "router/http/json_fields.h"

namespace kvrelay::http {

// {"type": "text" | "json_object" | "json_schema", "json_schema": {"schema": ...}}, or one of {"json": a schema, as an
// object or as text}, {"regex": text}, {"grammar": text}, {"choice": [text, ...]}. Fails if both ask for something.
// `body` is the text of `fields`: a schema keeps its order.
void ReadOutputFormat(Fields& fields, const std::string& body, v1::GenerateRequest& request);

}  // namespace kvrelay::http
