// The limits that generation.proto states, checked in one place, and the way from a public request to a flow's.
// Messages name the field, the value and the limit.
//
// Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kvrelay/v1/generation.pb.h"
#include "router/flow_output.h"
#include "router/served_model.h"

namespace kvrelay::router {

// NOT_FOUND unless `name` is empty or the model's.
absl::Status CheckModelName(const std::string& name, const ModelFacts& facts);

// Checks everything, tokenizes the prompt and fills in defaults. `drawn_seed` is used if the request has no seed,
// `made_id` if it has no label. May take milliseconds.
absl::StatusOr<FlowRequest> ToFlowRequest(const v1::GenerateRequest& request, const ServedModel& model,
                                          uint64_t drawn_seed, const std::string& made_id);

// Token ids of the prompt of either kind of request. INVALID_ARGUMENT if none is set or a limit is passed.
absl::StatusOr<std::vector<int32_t>> TokenizePrompt(const v1::TokenizeRequest& request, const ServedModel& model);
absl::Status CheckDetokenize(const v1::DetokenizeRequest& request, const ModelFacts& facts);

}  // namespace kvrelay::router
