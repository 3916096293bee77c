#include "cli/options.h"

#include <google/protobuf/stubs/common.h>

#include <CLI/CLI.hpp>
#include <map>
#include <ostream>

#include "cli/exit_code.h"
#include "common/base/version.h"
#include "grpcpp/grpcpp.h"

namespace kvrelay::cli {
namespace {

constexpr char kFooter[] =
    "\nThe routers are those of --address, or else of $KVRELAY_ADDRESS, or else of .run/endpoints.json, which './dev "
    "up'\n"
    "writes. When one cannot be reached (within 3 s) or goes away, the next one is asked, and after the last the "
    "first\n"
    "again; a stream goes on there without a token lost, repeated or changed. It is given up after 16 rounds through "
    "all\n"
    "routers without a new token, or after 3 if nothing had come yet, with pauses of 0.1 s to 2 s between rounds.\n"
    "TLS and token are the same for all of them. For a certificate that a public CA signed, --tls-ca is\n"
    "/etc/ssl/certs/ca-certificates.crt. Colours appear on a terminal only, and not with NO_COLOR set.\n"
    "JSON output is protobuf's JSON mapping with the field names of generation.proto: one object a line, fields at "
    "their\n"
    "default included, floats that read back to the same bits, 64-bit integers and durations (\"0.25s\") as "
    "strings.\n"
    "Where a stream goes on elsewhere, a line {\"resumed\": {\"count\": N, \"address\": \"HOST:PORT\", "
    "\"tokens\": T}} says so:\nfor the Nth time, after T tokens.\n\n";

std::string Footer() { return std::string(kFooter) + kExitCodeHelp; }

void AddRouters(CLI::App* app, Options* o) {
  const auto file = [app](const char* flag, std::string& path, const char* variable, const char* help) {
    app->add_option(flag, path, help)->envname(variable)->type_name("FILE");
  };
  app->add_option("--address,--server", o->addresses, "Router; several with commas or repeated")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("HOST:PORT");
  file("--tls-ca", o->tls_ca, "KVRELAY_TLS_CA", "Use TLS; a router's certificate must end at a CA in this PEM file");
  file("--tls-cert", o->tls_cert, "KVRELAY_TLS_CERT", "Certificate chain to show, where a router asks for one");
  file("--tls-key", o->tls_key, "KVRELAY_TLS_KEY", "Its private key");
  file("--token-file", o->token_file, "KVRELAY_TOKEN_FILE", "File with the token to send, and nothing else");
}

void AddConnection(CLI::App* app, Options* options) {
  AddRouters(app, options);
  app->add_option("--deadline-ms", options->deadline_ms, "Ends each call, resumed or not, after this time; 0: never")
      ->check(CLI::Range(int64_t{0}, int64_t{86'400'000}))
      ->type_name("MS");
}

void AddJson(CLI::App* app, Options* options) {
  app->add_flag("--json", options->json, "Print each response as one JSON object a line");
}

void AddSampling(CLI::App* app, GenerationOptions* o) {
  app->add_option("--temperature", o->temperature, "Divides the logits; 0 (default) is greedy");
  app->add_option("--top-k", o->top_k, "Keeps the K most likely tokens; 0 (default) keeps all");
  app->add_option("--top-p", o->top_p, "Keeps the most likely tokens up to this probability, (0, 1]; default 1");
  app->add_option("--min-p", o->min_p, "Drops tokens below this share of the best one's probability; default 0");
  app->add_option("--seed", o->seed, "Seed of the random numbers; default: drawn by the service");
}

void AddGeneration(CLI::App* app, Options* options, const char* max_tokens_help) {
  GenerationOptions* o = &options->generation;
  app->add_option("--max-tokens", o->max_tokens, max_tokens_help);
  app->add_option("--min-tokens", o->min_tokens, "No end before this many tokens; default 0");
  AddSampling(app, o);
  app->add_option("--stop", o->stop, "A string that ends the answer; may be given up to 16 times")
      ->allow_extra_args(false);
  app->add_option("--stop-token-ids", o->stop_token_ids, "Token ids that end the answer: 1,2,3")
      ->delimiter(',')
      ->allow_extra_args(false);
  app->add_flag("--ignore-eos", o->ignore_eos, "Go on after the model's end-of-sequence tokens");
  app->add_option_function<std::string>(
         "--execution",
         [o](const std::string& name) {
           const absl::StatusOr<v1::Execution> execution = ParseExecution(name);
           if (!execution.ok()) throw CLI::ValidationError("--execution", std::string(execution.status().message()));
           o->execution = *execution;
         },
         "split: prefill and decode on two workers; local: on one; no-cache: on one, recomputing all; default: the "
         "service chooses")
      ->type_name("split|local|no-cache");
  app->add_option("--priority", o->priority, "Place in queues: a step counts as 10 s of waiting; -10 to 10, default 0");
  app->add_option("--cache-salt", o->cache_salt, "Reuses KV of requests with the same salt only; default empty");
  app->add_option("--request-id", o->request_id, "A label for logs; default: made by the service");
  app->add_option("--model", o->model, "Model to use; default: the one that is served");
  AddConnection(app, options);
}

void AddLogprobs(CLI::App* app, Options* options) {
  app->add_option("--logprobs", options->generation.logprobs,
                  "Show each token with its log-probability and those of the N most likely tokens, 0 to 20");
}

void AddPrompt(CLI::App* app, Options* options, const std::string& help) {
  app->add_option("PROMPT", options->prompt, help)->type_name("");
}

void AddTokenIds(CLI::App* app, Options* options) {
  app->add_option("--token-ids", options->token_ids, "Prompt of token ids: 1,2,3; used as they are")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void AddChatPrompt(CLI::App* app, Options* options) {
  app->add_flag("--chat", options->chat, "Take the prompt as a user message for the chat template, as 'run' does");
  app->add_option("--system", options->system, "System message before it; needs --chat");
}

constexpr char kMaxTokensHelp[] = "Most tokens to generate; default 256";

CLI::App* AddCommand(CLI::App* app, const char* name, const char* help, Command command, Options* options) {
  CLI::App* sub = app->add_subcommand(name, help);
  sub->footer(Footer());
  sub->parse_complete_callback([options, command] { options->command = command; });
  return sub;
}

void AddGenerating(CLI::App* app, Options* options) {
  CLI::App* generate = AddCommand(app, "generate", "Continue raw text", Command::kGenerate, options);
  AddPrompt(generate, options, "The text; without it or with '-', standard input, byte for byte");
  AddTokenIds(generate, options);
  AddGeneration(generate, options, kMaxTokensHelp);
  AddLogprobs(generate, options);
  AddJson(generate, options);
  generate->add_flag("--quiet", options->quiet, "No statistics line on standard error");

  CLI::App* run =
      AddCommand(app, "run", "Answer one message, through the model's chat template", Command::kRun, options);
  AddPrompt(run, options, "The message; without it or with '-', standard input, less one final newline");
  run->add_option("--system", options->system, "System message before it");
  AddGeneration(run, options, kMaxTokensHelp);
  AddLogprobs(run, options);
  AddJson(run, options);
  run->add_flag("--quiet", options->quiet, "No statistics line on standard error");

  CLI::App* chat = AddCommand(app, "chat", "Talk in turns; /help inside tells the commands", Command::kChat, options);
  chat->add_option("--system", options->system, "System message at the start");
  AddGeneration(chat, options, kMaxTokensHelp);
  chat->add_flag("--quiet", options->quiet, "No statistics line after each answer");

  CLI::App* trace = AddCommand(app, "trace", "Show what each run computed, appended to the KV cache and read from it",
                               Command::kTrace, options);
  AddPrompt(trace, options, "Raw text; without it or with '-', standard input, byte for byte");
  AddTokenIds(trace, options);
  AddChatPrompt(trace, options);
  trace->add_flag("--compare", options->compare,
                  "Run the request split, local and without a cache, and compare tokens and time");
  AddGeneration(trace, options, "Most tokens to generate; default 8");
  AddLogprobs(trace, options);
  AddJson(trace, options);
}

void AddAsking(CLI::App* app, Options* options) {
  CLI::App* tokenize = AddCommand(app, "tokenize", "Show the tokens of a prompt", Command::kTokenize, options);
  AddPrompt(tokenize, options, "Raw text; without it or with '-', standard input, byte for byte");
  AddChatPrompt(tokenize, options);

  CLI::App* detokenize = AddCommand(app, "detokenize", "Show the text of token ids", Command::kDetokenize, options);
  detokenize->add_option("IDS", options->token_ids, "Token ids: 1 2 3 or 1,2,3")->delimiter(',')->required();
  detokenize->add_flag("--include-control", options->include_control, "Show control tokens as text");

  CLI::App* model = AddCommand(app, "model", "Describe the model that is served", Command::kModel, options);
  for (CLI::App* sub : {tokenize, detokenize, model}) {
    sub->add_option("--model", options->generation.model, "Model to use; default: the one that is served");
    AddConnection(sub, options);
    AddJson(sub, options);
  }

  CLI::App* status = AddCommand(app, "status", "List the workers with their load", Command::kStatus, options);
  AddConnection(status, options);
  AddJson(status, options);

  CLI::App* wait = AddCommand(app, "wait", "Wait until a decode worker is ready", Command::kWait, options);
  wait->add_option("--timeout-s", options->timeout_s, "Give up after this many seconds; default 120")
      ->check(CLI::Range(uint32_t{0}, uint32_t{86'400}));
  wait->add_flag("--all", options->all, "Wait until every configured worker is ready");
  AddRouters(wait, options);
  wait->add_flag("--quiet", options->quiet, "No progress");
}

// What CLI11 cannot say by itself. Empty if all is well.
std::string Contradiction(const Options& options) {
  if (options.command == Command::kDetokenize) return "";
  if (!options.token_ids.empty() && (options.prompt || options.chat)) {
    return "--token-ids is a prompt already: leave out the text and --chat";
  }
  const bool has_flag = options.command == Command::kTrace || options.command == Command::kTokenize;
  if (has_flag && !options.system.empty() && !options.chat) return "--system needs --chat";
  if (options.compare && options.generation.execution != v1::EXECUTION_UNSPECIFIED) {
    return "--compare runs all executions: leave out --execution";
  }
  return "";
}

}  // namespace

std::optional<int> ParseOptions(int argc, const char* const* argv, const Console& console, Options* options) {
  CLI::App app("Client of the kvrelay service: text generation with prefill and decode in separate workers.",
               "kvrelay");
  app.footer(Footer());
  app.set_version_flag("--version", std::string("kvrelay ") + Version() + " (gRPC " + grpc::Version() + ", protobuf " +
                                        google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION) + ")");
  AddConnection(&app, options);
  AddGenerating(&app, options);
  AddAsking(&app, options);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error, console.out, console.err) == 0) return kExitOk;
    return kExitUsage;
  }
  if (const std::string mistake = Contradiction(*options); !mistake.empty()) {
    console.err << "kvrelay: " << mistake << "\n  See --help." << std::endl;
    return kExitUsage;
  }
  return std::nullopt;
}

}  // namespace kvrelay::cli
