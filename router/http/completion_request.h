// POST /v1/completions and /v1/chat/completions: from OpenAI's JSON to requests of kvrelay.v1, one for each choice.
//
// What a field means is OpenAI's reference; beyond it, as in vLLM: top_k, min_p, repetition_penalty, allowed_token_ids,
// min_tokens, ignore_eos, stop_token_ids, priority, cache_salt, structured_outputs. Fields that are not known are
// ignored. Known ones that are not built and would change the answer (tools, prompt_logprobs, ...) are refused unless
// they ask for nothing. Ranges that kvrelay.v1 states are checked by the service.
//
// Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "kvrelay/v1/generation.pb.h"
#include "router/http/api_error.h"

namespace kvrelay::http {

// Prompts x n of one HTTP request.
inline constexpr int kChoicesMax = 32;

enum class Api { kCompletions, kChat };

struct CompletionRequest {
  Api api;
  // One for each choice: those of the first prompt, then those of the next. Choice i of a prompt has seed + i.
  std::vector<v1::GenerateRequest> calls = {};
  int choices_per_prompt = 1;
  bool stream = false;
  bool include_usage = false;  // a last chunk with the usage; only if `stream`
  bool echo = false;           // the prompt comes first; completions only
  bool logprobs = false;
  int top_logprobs = 0;  // most likely tokens beside the selected one, if `logprobs`
};

// `request_id` becomes that of the calls, with "-1", "-2", ... if there are several.
Result<CompletionRequest> ParseCompletionRequest(Api api, const std::string& body, const std::string& request_id);

}  // namespace kvrelay::http
