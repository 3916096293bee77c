// From options to requests.
#pragma once

#include <istream>
#include <string>

#include "absl/status/statusor.h"
#include "cli/console.h"
#include "cli/options.h"

namespace kvrelay::cli {

// The prompt text: the argument, or standard input when it is unset or "-". INVALID_ARGUMENT if it is longer than the
// service takes (1 MiB) or not UTF-8 (which gRPC would refuse with a less clear error).
absl::StatusOr<std::string> ReadPrompt(const Options& options, const Console& console);

// The request of `options` with a raw text, token id or chat prompt, whichever the command and the options say; reads
// the prompt.
absl::StatusOr<v1::GenerateRequest> BuildRequest(const Options& options, const Console& console);

// All fields but the prompt. INVALID_ARGUMENT if a string is not UTF-8.
absl::StatusOr<v1::GenerateRequest> BuildPromptless(const GenerationOptions& options);

// Appends one message.
void AddMessage(const std::string& role, const std::string& content, v1::Chat* chat);

// INVALID_ARGUMENT naming `what` unless `text` is UTF-8.
absl::Status CheckUtf8(const std::string& text, const std::string& what);

}  // namespace kvrelay::cli
