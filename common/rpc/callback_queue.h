// Works around a race in gRPC 1.51: the completion queue for callbacks belongs to all channels of a process together,
// and its end, with the last channel, races with its beginning, with the next one. The process then aborts with
// "assertion failed: prior > 0".
#pragma once

namespace kvrelay::rpc {

// Keeps the queue from now on. Thread-safe; does nothing the second time.
void KeepCallbackQueue();

}  // namespace kvrelay::rpc
