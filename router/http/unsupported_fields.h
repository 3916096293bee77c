// Options of OpenAI's API and of vLLM's that are known, not built, and would change the answer.
//
// Pure; thread-safe.
#pragma once

#include "router/http/json_fields.h"

namespace kvrelay::http {

// Fails at the first of them that asks for something. Values that ask for nothing pass: null, false, 0, "", [], {}, and
// what stands in the table.
void RefuseUnsupported(Fields& fields);

}  // namespace kvrelay::http
