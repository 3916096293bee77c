// Flags of the decode worker: the shared ones, and the address that it gives to senders of KV.
#pragma once

#include <variant>

#include "common/worker/options.h"

namespace kvrelay::decode_worker {

// See worker::ParseWorkerOptions.
std::variant<worker::WorkerOptions, int> ParseOptions(int argc, const char* const* argv);

}  // namespace kvrelay::decode_worker
