// The requests of a load test, and when each is due. The same for the same seed and options, in the same build;
// arrivals, lengths and contents are drawn apart, so that another rate changes arrivals alone.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kvrelay/bench/v1/bench.pb.h"
#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::cli::bench {

// Lengths in tokens whose logarithm is normal with standard deviation `sigma`, and whose mean is `mean`; rounded, and
// limited to 1 and `max`.
class Lengths {
 public:
  // REQUIRES: mean >= 1, sigma >= 0, max >= 1.
  Lengths(double mean, double sigma, uint32_t max, uint64_t seed);
  uint32_t Next();

 private:
  std::mt19937_64 random_;
  std::lognormal_distribution<double> distribution_;
  const uint32_t max_;
};

// A Poisson process: gaps are independent and exponential with mean 1 / rate.
class Arrivals {
 public:
  // REQUIRES: rate > 0, in arrivals per second.
  Arrivals(double rate, uint64_t seed) : random_(seed), gap_s_(rate) {}
  // The next arrival, after the start.
  absl::Duration Next() { return at_ += absl::Seconds(gap_s_(random_)); }

 private:
  std::mt19937_64 random_;
  std::exponential_distribution<double> gap_s_;
  absl::Duration at_;
};

struct WorkloadOptions {
  double rate = 0;  // arrivals per second; 0: there are none (closed loop), or `items` tell them
  double prompt_tokens = 256, prompt_sigma = 0;
  double output_tokens = 64, output_sigma = 0;
  bool text = false;  // random words, about as many as tokens are wanted; else random token ids
  uint64_t seed = 0;
  std::vector<kvrelay::bench::v1::Item> items = {};  // taken in order, again and again; empty: all is drawn
  v1::GenerateRequest base = {};                     // every request, but for prompt and max_tokens
};

struct PlannedRequest {
  absl::Duration due;  // after the start; 0 without arrivals
  v1::GenerateRequest request;
};

class Workload {
 public:
  // INTERNAL if no request could be made for a model like that.
  static absl::Status Check(const v1::GetModelResponse& model);
  // REQUIRES: Check(model) is OK.
  Workload(WorkloadOptions options, const v1::GetModelResponse& model);
  PlannedRequest Next();

 private:
  void AddPrompt(uint32_t tokens, v1::GenerateRequest* request);

  const WorkloadOptions options_;
  const uint32_t context_length_;
  const uint32_t vocabulary_size_;
  const std::set<uint32_t> special_;  // ids that stand in no drawn prompt: begin and end of sequences
  Arrivals arrivals_;
  Lengths prompt_lengths_, output_lengths_;
  std::mt19937_64 contents_;
  size_t next_item_ = 0;
};

// Reads --file: a JSON object of bench.v1.Item a line; empty lines do not count. INVALID_ARGUMENT or NOT_FOUND naming
// the file, and the line that is wrong.
absl::StatusOr<std::vector<kvrelay::bench::v1::Item>> ReadItems(const std::string& path);

}  // namespace kvrelay::cli::bench
