#include "cli/request.h"

#include <fstream>
#include <ostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/text.h"
#include "common/base/status_macros.h"

namespace kvrelay::cli {
namespace {

constexpr size_t kMaxPromptBytes = 1 << 20;

std::string ReadAtMost(std::istream& in, size_t limit) {
  std::string text;
  char buffer[4096];
  while (text.size() < limit && in) {
    in.read(buffer, static_cast<std::streamsize>(std::min(sizeof(buffer), limit - text.size())));
    text.append(buffer, static_cast<size_t>(in.gcount()));
  }
  return text;
}

absl::Status SetLogitBias(const std::vector<std::string>& biases, v1::SamplingParams* sampling) {
  for (const std::string& text : biases) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
    uint32_t id = 0;
    float bias = 0;
    if (!absl::SimpleAtoi(parts.first, &id) || !absl::SimpleAtof(parts.second, &bias)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--logit-bias takes ID:BIAS, a token id and a number, not '", text, "'"));
    }
    (*sampling->mutable_logit_bias())[id] = bias;
  }
  return absl::OkStatus();
}

absl::Status SetSampling(const GenerationOptions& options, v1::SamplingParams* sampling) {
  if (options.temperature) sampling->set_temperature(*options.temperature);
  sampling->set_top_k(options.top_k);
  if (options.top_p) sampling->set_top_p(*options.top_p);
  sampling->set_min_p(options.min_p);
  if (options.seed) sampling->set_seed(*options.seed);
  if (options.repetition_penalty) sampling->set_repetition_penalty(*options.repetition_penalty);
  sampling->set_presence_penalty(options.presence_penalty);
  sampling->set_frequency_penalty(options.frequency_penalty);
  sampling->mutable_allowed_token_ids()->Add(options.allowed_token_ids.begin(), options.allowed_token_ids.end());
  return SetLogitBias(options.logit_bias, sampling);
}

bool IsChat(const Options& options) { return options.command == Command::kRun || options.chat; }

}  // namespace

absl::Status CheckUtf8(const std::string& text, const std::string& what) {
  const std::optional<size_t> offset = FindInvalidUtf8(text);
  if (!offset) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " is not valid UTF-8: see byte ", *offset));
}

absl::StatusOr<std::string> ReadPrompt(const Options& options, const Console& console) {
  std::string prompt;
  if (options.prompt && *options.prompt != "-") {
    prompt = *options.prompt;
  } else {
    if (console.in_is_terminal) console.err << "Type the prompt, then Ctrl-D on an empty line." << std::endl;
    prompt = ReadAtMost(console.in, kMaxPromptBytes + 1);
    if (IsChat(options)) prompt = std::string(absl::StripSuffix(prompt, "\n"));
  }
  if (prompt.size() > kMaxPromptBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the prompt is longer than ", kMaxPromptBytes, " bytes"));
  }
  KV_RETURN_IF_ERROR(CheckUtf8(prompt, "the prompt"));
  return prompt;
}

void AddMessage(const std::string& role, const std::string& content, v1::Chat* chat) {
  v1::ChatMessage* message = chat->add_messages();
  message->set_role(role);
  message->set_content(content);
}

// `text` itself, or what the file holds that it names behind an @.
absl::StatusOr<std::string> TextOrFile(const std::string& text, const std::string& flag) {
  std::string content = text;
  if (!text.empty() && text[0] == '@') {
    std::ifstream file(text.substr(1), std::ios::binary);
    if (!file) return absl::NotFoundError(absl::StrCat(flag, ": no file ", text.substr(1), " to read"));
    content = ReadAtMost(file, kMaxPromptBytes);
  }
  KV_RETURN_IF_ERROR(CheckUtf8(content, flag));
  return content;
}

absl::Status SetOutputFormat(const GenerationOptions& options, v1::GenerateRequest* request) {
  if (options.json_schema.has_value() + options.regex.has_value() + options.lark_grammar.has_value() > 1) {
    return absl::InvalidArgumentError("only one of --json-schema, --regex and --lark-grammar can be given");
  }
  if (options.json_schema) {
    KV_ASSIGN_OR_RETURN(*request->mutable_json_schema(), TextOrFile(*options.json_schema, "--json-schema"));
  }
  if (options.regex) {
    KV_RETURN_IF_ERROR(CheckUtf8(*options.regex, "--regex"));
    request->set_regex(*options.regex);
  }
  if (options.lark_grammar) {
    KV_ASSIGN_OR_RETURN(*request->mutable_lark_grammar(), TextOrFile(*options.lark_grammar, "--lark-grammar"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::GenerateRequest> BuildPromptless(const GenerationOptions& options) {
  KV_RETURN_IF_ERROR(CheckUtf8(options.request_id, "--request-id"));
  KV_RETURN_IF_ERROR(CheckUtf8(options.model, "--model"));
  KV_RETURN_IF_ERROR(CheckUtf8(options.cache_salt, "--cache-salt"));
  v1::GenerateRequest request;
  request.set_request_id(options.request_id);
  request.set_model(options.model);
  KV_RETURN_IF_ERROR(SetSampling(options, request.mutable_sampling()));
  if (options.max_tokens) request.set_max_tokens(*options.max_tokens);
  request.set_min_tokens(options.min_tokens);
  for (const std::string& stop : options.stop) {
    KV_RETURN_IF_ERROR(CheckUtf8(stop, "--stop"));
    request.add_stop(stop);
  }
  request.mutable_stop_token_ids()->Add(options.stop_token_ids.begin(), options.stop_token_ids.end());
  request.set_include_stop(options.include_stop);
  request.set_include_control(options.include_control);
  request.set_truncate_prompt_tokens(options.truncate_prompt_tokens);
  request.set_ignore_eos(options.ignore_eos);
  request.set_execution(options.execution);
  request.set_priority(options.priority);
  request.set_cache_salt(options.cache_salt);
  request.set_logprobs(options.logprobs);
  KV_RETURN_IF_ERROR(SetOutputFormat(options, &request));
  return request;
}

absl::StatusOr<v1::GenerateRequest> BuildRequest(const Options& options, const Console& console) {
  KV_ASSIGN_OR_RETURN(v1::GenerateRequest request, BuildPromptless(options.generation));
  if (!options.token_ids.empty()) {
    request.mutable_token_ids()->mutable_ids()->Add(options.token_ids.begin(), options.token_ids.end());
    return request;
  }
  KV_ASSIGN_OR_RETURN(const std::string prompt, ReadPrompt(options, console));
  if (!IsChat(options)) {
    request.set_text(prompt);
    return request;
  }
  KV_RETURN_IF_ERROR(CheckUtf8(options.system, "--system"));
  if (!options.system.empty()) AddMessage("system", options.system, request.mutable_chat());
  AddMessage("user", prompt, request.mutable_chat());
  return request;
}

}  // namespace kvrelay::cli
