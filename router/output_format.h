// What a request wants its output to look like: checked by compiling it, and handed on to workers.
//
// Pure; thread-safe.
#pragma once

#include "absl/status/status.h"
#include "kvrelay/v1/generation.pb.h"
#include "kvrelay/worker/v1/worker.pb.h"
#include "router/served_model.h"

namespace kvrelay::router {

// Sets the output format of `spec` if the request has one. INVALID_ARGUMENT naming the field if it cannot be used, or
// not together with other options of the request. May take milliseconds.
absl::Status SetOutputFormat(const v1::GenerateRequest& request, const ServedModel& model,
                             worker::v1::GenerationSpec* spec);

}  // namespace kvrelay::router
