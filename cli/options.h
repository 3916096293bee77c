// The command line. Owns all text of --help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/console.h"
#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::cli {

// Options that are fields of GenerateRequest, with dashes for underscores. Unset ones are left to the service, which
// also checks all ranges.
struct GenerationOptions {
  std::string request_id;
  std::string model;
  std::optional<uint32_t> max_tokens;
  uint32_t min_tokens = 0;
  std::optional<float> temperature;
  uint32_t top_k = 0;
  std::optional<float> top_p;
  float min_p = 0;
  std::optional<uint64_t> seed;
  std::optional<float> repetition_penalty;
  float presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::string> logit_bias;  // "ID:BIAS"
  std::vector<uint32_t> allowed_token_ids;
  std::optional<std::string> json_schema, regex, lark_grammar;  // at most one; of the others text, or @ and a file
  std::vector<std::string> stop;
  std::vector<uint32_t> stop_token_ids;
  bool include_stop = false, include_control = false;
  uint32_t truncate_prompt_tokens = 0;
  bool ignore_eos = false;
  int32_t priority = 0;
  std::string cache_salt;
  v1::Execution execution = v1::EXECUTION_UNSPECIFIED;
  uint32_t logprobs = 0;
};

// Options of a load test. 0: not given.
struct BenchOptions {
  double rate = 0;
  uint32_t concurrency = 0;
  uint64_t requests = 0;
  double duration_s = 0;
  double prompt_tokens = 256, prompt_sigma = 0;
  double output_tokens = 64, output_sigma = 0;
  bool text = false;
  bool stop_at_eos = false;
  std::string file, records;
  double slo_ttft_ms = 0, slo_tpot_ms = 0, slo_itl_ms = 0;
};

enum class Command { kGenerate, kRun, kChat, kTrace, kTokenize, kDetokenize, kModel, kStatus, kWait, kBench };

struct Options {
  Command command = Command::kStatus;
  std::vector<std::string> addresses;  // of routers
  int64_t deadline_ms = 0;
  std::string tls_ca, tls_cert, tls_key;  // PEM files; without a CA: plaintext
  std::string token_file;                 // empty: no token
  bool json = false;
  bool quiet = false;

  std::optional<std::string> prompt;  // the argument; unset or "-": standard input
  std::vector<uint32_t> token_ids;    // a prompt of ids, or what to detokenize
  std::string system;                 // a system message before the prompt
  bool chat = false;                  // the prompt is a user message, not raw text
  bool compare = false;               // trace: all three executions
  bool include_control = false;       // detokenize
  uint32_t timeout_s = 120;           // wait
  bool all = false;                   // wait: every configured worker
  GenerationOptions generation;
  BenchOptions bench;
};

// Reads the command line into `*options`. Returns the exit code if the program ends here: after --help or --version
// (0), or at a mistake (2), which is told on `console.err`.
std::optional<int> ParseOptions(int argc, const char* const* argv, const Console& console, Options* options);

// The routers to use, at least one: `option` if not empty, else $KVRELAY_ADDRESS (several with commas), else those of
// ./.run/endpoints.json, "grpc" first. Each once.
absl::StatusOr<std::vector<std::string>> ResolveAddresses(const std::vector<std::string>& option);

// `name` as in --execution; INVALID_ARGUMENT lists the choices.
absl::StatusOr<v1::Execution> ParseExecution(const std::string& name);
// "split", "local", "no-cache" or "unspecified".
const char* ExecutionName(v1::Execution execution);

}  // namespace kvrelay::cli
