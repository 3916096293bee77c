// Log-probabilities in the two shapes of OpenAI's API.
//
// Pure; thread-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::http {

// Of completions: parallel lists of tokens, their log-probabilities, the most likely tokens (null if `top` is 0), and
// where in the text each token begins. `characters` is where the first one does; afterwards it is the end of the last
// one. In code points.
nlohmann::json CompletionLogprobs(const std::vector<v1::Token>& tokens, int top, size_t& characters);

// Of chats: a list of tokens, each with its bytes and the most likely tokens in its place. `bytes` is null for a token
// that is no whole UTF-8.
nlohmann::json ChatLogprobs(const std::vector<v1::Token>& tokens, int top);

}  // namespace kvrelay::http
