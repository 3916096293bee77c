// Engine values as messages of the worker API.
#pragma once

#include "common/engine/session.h"
#include "kvrelay/worker/v1/worker.pb.h"

namespace kvrelay::worker {

v1::EndReason ToProto(sampling::EndReason reason);
v1::Positions ToProto(const engine::PositionCounts& counts);
// `logprobs`: whether log-probabilities were asked for; `trace`: whether the run is reported.
v1::Selected ToProto(const engine::SelectedToken& token, bool logprobs, bool trace);

}  // namespace kvrelay::worker
