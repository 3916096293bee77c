// The prompt of a request in the forms that OpenAI's API has for it.
//
// Pure; thread-safe.
#pragma once

#include <vector>

#include "kvrelay/v1/generation.pb.h"
#include "router/http/json_fields.h"

namespace kvrelay::http {

// `prompt`: a string, a list of strings, a list of token ids, or a list of such lists. A request for each prompt with
// nothing but it; empty after an error, which `fields` has.
std::vector<v1::GenerateRequest> ReadPrompts(Fields& fields);

// `messages`: [{"role": "user", "content": "text" or [{"type": "text", "text": "..."}, ...]}, ...]. The role
// "developer" is "system", as OpenAI says.
v1::Chat ReadMessages(Fields& fields);

// `name`: a list of token ids.
v1::TokenIds ReadTokenIds(Fields& fields, const char* name);

}  // namespace kvrelay::http
