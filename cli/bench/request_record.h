// One request of a load test as the client saw it, and the quantities that are read off it.
//
// A request is due at time d, sent at s >= d, and its tokens 0 to n - 1 arrive at t_0 to t_{n-1}.
//   TTFT  = t_0 - d                 time to the first token
//   ITL_i = t_i - t_{i-1}           gaps between tokens, i from 1
//   E2E   = t_{n-1} - d             time to the last token
//   TPOT  = (E2E - TTFT) / (n - 1)  mean gap of a request; from two tokens on
// These are the definitions of vLLM's benchmark (vllm/benchmarks/serve.py, calculate_metrics), but for one thing: there
// time begins at s. Here it begins at d, so that a load generator that falls behind makes its results worse, not better
// (coordinated omission). A request is good (goodput: DistServe, OSDI 2024) if it ended well, and its TTFT, its TPOT
// and its largest gap are within the objectives that were given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/support/status.h"
#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::cli::bench {

// Times are those after the start of the run.
struct RequestRecord {
  absl::Duration due;
  absl::Duration sent;
  std::vector<absl::Duration> tokens;  // arrivals
  absl::Duration ended;
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::string error;
  uint32_t prompt_tokens = 0;
  v1::Timings timings;  // of the service; empty unless code is OK

  bool ok() const { return code == grpc::StatusCode::OK; }
  absl::Duration Late() const { return sent - due; }
  // REQUIRES: at least one token.
  absl::Duration Ttft() const { return tokens.front() - due; }
  absl::Duration E2e() const { return tokens.back() - due; }
  // Nothing with fewer than two tokens.
  std::optional<absl::Duration> Tpot() const;
  // One less than tokens.
  std::vector<absl::Duration> Gaps() const;
};

// Limits that a good request keeps; infinite: none was given.
struct Objectives {
  absl::Duration ttft = absl::InfiniteDuration();
  absl::Duration tpot = absl::InfiniteDuration();
  absl::Duration itl = absl::InfiniteDuration();

  bool any() const;
  bool MetBy(const RequestRecord& record) const;
};

}  // namespace kvrelay::cli::bench
