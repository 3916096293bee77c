// What a peer asked for, checked and turned into what the engine runs. Shared by both workers, so that both refuse the
// same.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/engine/session.h"
#include "common/worker/context.h"
#include "kvrelay/worker/v1/worker.pb.h"

namespace kvrelay::worker {

// Limits of a spec, beside the model's vocabulary and context. The router enforces the same on its clients.
inline constexpr int kMaxStopTokenIds = 64;
inline constexpr int kMaxLogitBiases = 1024;
inline constexpr int kMaxAllowedTokenIds = 16384;
inline constexpr int kMaxLogprobs = 20;
inline constexpr int kMaxCacheSaltBytes = 64;
inline constexpr int kMaxPriority = 10;

// INVALID_ARGUMENT naming the field, the value and the limit. Nothing is allocated by an unchecked number. `source` and
// `stop_after_first` are for the caller to set; Engine::Reserve checks what depends on the engine.
absl::StatusOr<engine::SessionSpec> ParseSpec(const v1::GenerationSpec& spec, const WorkerContext& context);

// A handoff id is 16 bytes. It is never quoted: it is a right to write.
inline constexpr int kHandoffIdBytes = 16;
absl::Status CheckHandoffId(const std::string& id);
// The name of a worker that a peer gives, 1 to 256 bytes.
absl::Status CheckInstance(const std::string& field, const std::string& instance);
// Where a peer asks to send KV: host:port with a port, and who is expected there.
absl::Status CheckKvTarget(const std::string& address, const std::string& instance);

}  // namespace kvrelay::worker
