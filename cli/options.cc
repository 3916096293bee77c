#include "cli/options.h"

#include <google/protobuf/stubs/common.h>

#include <ostream>

#include "absl/strings/str_cat.h"
#include "cli/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status_macros.h"
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

std::string Footer() { return absl::StrCat(kFooter, kExitCodeHelp); }

void AddRouters(Flags& flags, Options* o) {
  const auto file = [&flags](const char* flag, std::string& path, const char* variable, const char* help) {
    flags.Add(flag, path, help).Env(variable).TypeName("FILE");
  };
  flags.Add("--address,--server", o->addresses, "Router; several with commas or repeated").List().TypeName("HOST:PORT");
  file("--tls-ca", o->tls_ca, "KVRELAY_TLS_CA", "Use TLS; a router's certificate must end at a CA in this PEM file");
  file("--tls-cert", o->tls_cert, "KVRELAY_TLS_CERT", "Certificate chain to show, where a router asks for one");
  file("--tls-key", o->tls_key, "KVRELAY_TLS_KEY", "Its private key");
  file("--token-file", o->token_file, "KVRELAY_TOKEN_FILE", "File with the token to send, and nothing else");
}

void AddConnection(Flags& flags, Options* options) {
  AddRouters(flags, options);
  flags.Add("--deadline-ms", options->deadline_ms, "Ends each call, resumed or not, after this time; 0: never")
      .Range(0, 86'400'000)
      .TypeName("MS");
}

void AddJson(Flags& flags, Options* options) {
  flags.AddSwitch("--json", options->json, "Print each response as one JSON object a line");
}

void AddSampling(Flags& flags, GenerationOptions* o) {
  flags.Add("--temperature", o->temperature, "Divides the logits; 0 (default) is greedy");
  flags.Add("--top-k", o->top_k, "Keeps the K most likely tokens; 0 (default) keeps all");
  flags.Add("--top-p", o->top_p, "Keeps the most likely tokens up to this probability, (0, 1]; default 1");
  flags.Add("--min-p", o->min_p, "Drops tokens below this share of the best one's probability; default 0");
  flags.Add("--seed", o->seed, "Seed of the random numbers; default: drawn by the service");
  flags.Add("--repetition-penalty", o->repetition_penalty,
            "Divides positive logits, and multiplies negative ones, of tokens in prompt or answer; above 0, default 1");
  flags.Add("--presence-penalty", o->presence_penalty, "Taken off tokens of the answer so far; -2 to 2, default 0");
  flags.Add("--frequency-penalty", o->frequency_penalty, "The same, times how often they occur; -2 to 2, default 0");
  flags.Add("--logit-bias", o->logit_bias, "Added to logits of token ids, -100 to 100 each: 5:-100,7:2.5")
      .List()
      .TypeName("ID:BIAS");
  flags.Add("--json-schema", o->json_schema, "Holds the answer to a JSON schema: its text, or @FILE")
      .TypeName("SCHEMA");
  flags.Add("--regex", o->regex, "Holds the answer to a regular expression that all of it matches");
  flags.Add("--lark-grammar", o->lark_grammar, "Holds the answer to a grammar in Lark's language: its text, or @FILE")
      .TypeName("GRAMMAR");
  flags.Add("--allowed-token-ids", o->allowed_token_ids, "No other tokens are selected: 1,2,3; default: all").List();
}

void AddExecution(Flags& flags, GenerationOptions* o) {
  const auto parse = [o](const std::string& name) -> absl::Status {
    KV_ASSIGN_OR_RETURN(o->execution, ParseExecution(name));
    return absl::OkStatus();
  };
  flags
      .AddParsed("--execution", parse,
                 "split: prefill and decode on two workers; local: on one; no-cache: on one, recomputing all; default: "
                 "the service chooses")
      .TypeName("split|local|no-cache");
}

void AddGeneration(Flags& flags, Options* options, const char* max_tokens_help) {
  GenerationOptions* o = &options->generation;
  flags.Add("--max-tokens", o->max_tokens, max_tokens_help);
  flags.Add("--min-tokens", o->min_tokens, "No end before this many tokens; default 0");
  AddSampling(flags, o);
  flags.Add("--stop", o->stop, "A string that ends the answer; may be given up to 16 times");
  flags.Add("--stop-token-ids", o->stop_token_ids, "Token ids that end the answer: 1,2,3").List();
  flags.AddSwitch("--include-stop", o->include_stop, "Show the stop string that ended the answer");
  flags.AddSwitch("--include-control", o->include_control, "Show control tokens as text");
  flags.Add("--truncate-prompt-tokens", o->truncate_prompt_tokens,
            "Keeps the last N tokens of a longer prompt; default 0: all");
  flags.AddSwitch("--ignore-eos", o->ignore_eos, "Go on after the model's end-of-sequence tokens");
  AddExecution(flags, o);
  flags.Add("--priority", o->priority, "Place in queues: a step counts as 10 s of waiting; -10 to 10, default 0");
  flags.Add("--cache-salt", o->cache_salt, "Reuses KV of requests with the same salt only; default empty");
  flags.Add("--request-id", o->request_id, "A label for logs; default: made by the service");
  flags.Add("--model", o->model, "Model to use; default: the one that is served");
  AddConnection(flags, options);
}

void AddLogprobs(Flags& flags, Options* options) {
  flags.Add("--logprobs", options->generation.logprobs,
            "Show each token with its log-probability and those of the N most likely tokens, 0 to 20");
}

void AddPrompt(Flags& flags, Options* options, const std::string& help) {
  flags.Add("PROMPT", options->prompt, help).TypeName("");
}

void AddTokenIds(Flags& flags, Options* options) {
  flags.Add("--token-ids", options->token_ids, "Prompt of token ids: 1,2,3; used as they are").List();
}

void AddChatPrompt(Flags& flags, Options* options) {
  flags.AddSwitch("--chat", options->chat, "Take the prompt as a user message for the chat template, as 'run' does");
  flags.Add("--system", options->system, "System message before it; needs --chat");
}

constexpr char kMaxTokensHelp[] = "Most tokens to generate; default 256";

Flags& AddCommand(Flags& flags, const char* name, const char* help, Command command, Options* options) {
  Flags& added = flags.AddCommand(name, help, [options, command] { options->command = command; });
  added.Footer(Footer());
  return added;
}

void AddGenerating(Flags& flags, Options* options) {
  Flags& generate = AddCommand(flags, "generate", "Continue raw text", Command::kGenerate, options);
  AddPrompt(generate, options, "The text; without it or with '-', standard input, byte for byte");
  AddTokenIds(generate, options);
  AddGeneration(generate, options, kMaxTokensHelp);
  AddLogprobs(generate, options);
  AddJson(generate, options);
  generate.AddSwitch("--quiet", options->quiet, "No statistics line on standard error");

  Flags& run =
      AddCommand(flags, "run", "Answer one message, through the model's chat template", Command::kRun, options);
  AddPrompt(run, options, "The message; without it or with '-', standard input, less one final newline");
  run.Add("--system", options->system, "System message before it");
  AddGeneration(run, options, kMaxTokensHelp);
  AddLogprobs(run, options);
  AddJson(run, options);
  run.AddSwitch("--quiet", options->quiet, "No statistics line on standard error");

  Flags& chat = AddCommand(flags, "chat", "Talk in turns; /help inside tells the commands", Command::kChat, options);
  chat.Add("--system", options->system, "System message at the start");
  AddGeneration(chat, options, kMaxTokensHelp);
  chat.AddSwitch("--quiet", options->quiet, "No statistics line after each answer");

  Flags& trace = AddCommand(flags, "trace", "Show what each run computed, appended to the KV cache and read from it",
                            Command::kTrace, options);
  AddPrompt(trace, options, "Raw text; without it or with '-', standard input, byte for byte");
  AddTokenIds(trace, options);
  AddChatPrompt(trace, options);
  trace.AddSwitch("--compare", options->compare,
                  "Run the request split, local and without a cache, and compare tokens and time");
  AddGeneration(trace, options, "Most tokens to generate; default 8");
  AddLogprobs(trace, options);
  AddJson(trace, options);
}

void AddAsking(Flags& flags, Options* options) {
  Flags& tokenize = AddCommand(flags, "tokenize", "Show the tokens of a prompt", Command::kTokenize, options);
  AddPrompt(tokenize, options, "Raw text; without it or with '-', standard input, byte for byte");
  AddChatPrompt(tokenize, options);

  Flags& detokenize = AddCommand(flags, "detokenize", "Show the text of token ids", Command::kDetokenize, options);
  detokenize.Add("IDS", options->token_ids, "Token ids: 1 2 3 or 1,2,3").List().Required();
  detokenize.AddSwitch("--include-control", options->include_control, "Show control tokens as text");

  Flags& model = AddCommand(flags, "model", "Describe the model that is served", Command::kModel, options);
  for (Flags* asking : {&tokenize, &detokenize, &model}) {
    asking->Add("--model", options->generation.model, "Model to use; default: the one that is served");
    AddConnection(*asking, options);
    AddJson(*asking, options);
  }

  Flags& status = AddCommand(flags, "status", "List the workers with their load", Command::kStatus, options);
  AddConnection(status, options);
  AddJson(status, options);

  Flags& wait = AddCommand(flags, "wait", "Wait until a decode worker is ready", Command::kWait, options);
  wait.Add("--timeout-s", options->timeout_s, "Give up after this many seconds; default 120").Range(0, 86'400);
  wait.AddSwitch("--all", options->all, "Wait until every configured worker is ready");
  AddRouters(wait, options);
  wait.AddSwitch("--quiet", options->quiet, "No progress");
}

void AddBench(Flags& flags, Options* options) {
  Flags& bench =
      AddCommand(flags, "bench", "Put load on the service, and tell times, rates and goodput as clients see them",
                 Command::kBench, options);
  BenchOptions* o = &options->bench;
  bench.Add("--rate", o->rate, "Open loop: requests per second, at times of a Poisson process").TypeName("R");
  bench.Add("--concurrency", o->concurrency, "Closed loop: requests at a time; default, without --rate: 1")
      .Range(1, 100'000);
  bench.Add("--requests", o->requests, "End after so many; default: 100, or all of --file").Range(1, 10'000'000);
  bench.Add("--duration", o->duration_s, "Send none after so many seconds").TypeName("S");
  bench.Add("--prompt-tokens", o->prompt_tokens, "Mean length of prompts; default 256");
  bench.Add("--prompt-sigma", o->prompt_sigma, "Standard deviation of its logarithm; default 0: all the same");
  bench.Add("--output-tokens", o->output_tokens, "Mean number of tokens to generate; default 64");
  bench.Add("--output-sigma", o->output_sigma, "As --prompt-sigma");
  bench.AddSwitch("--text", o->text, "Prompts of so many random words instead of random token ids");
  bench
      .Add("--file", o->file,
           "Requests instead of drawn ones, a JSON object a line: one of \"prompt\" (text), \"token_ids\" and "
           "\"prompt_tokens\" (drawn); \"max_tokens\"; \"arrival_s\" in all lines or none, for an open loop")
      .TypeName("FILE");
  bench.AddSwitch("--stop-at-eos", o->stop_at_eos, "Let the model end an answer; by default lengths are exact");
  bench.Add("--seed", options->generation.seed, "Seed of arrivals, lengths and prompts; default 0");
  bench.Add("--slo-ttft-ms", o->slo_ttft_ms, "Objective of goodput: time to the first token").TypeName("MS");
  bench.Add("--slo-tpot-ms", o->slo_tpot_ms, "Objective of goodput: mean gap of a request").TypeName("MS");
  bench.Add("--slo-itl-ms", o->slo_itl_ms, "Objective of goodput: largest gap of a request").TypeName("MS");
  bench.Add("--records", o->records, "Write each request as a JSON line; scripts/plot_load.py draws it")
      .TypeName("FILE");
  AddExecution(bench, &options->generation);
  bench.Add("--model", options->generation.model, "Model to use; default: the one that is served");
  AddConnection(bench, options);
  bench.AddSwitch("--json", options->json, "Print the report as one JSON object (bench.proto tells the fields)");
}

std::string BenchMistake(const BenchOptions& o) {
  const auto within = [](double value, double min, double max) { return value >= min && value <= max; };
  if (o.rate != 0 && o.concurrency > 0) return "--rate and --concurrency exclude each other";
  if (!within(o.rate, 0, 1e5)) return "--rate takes up to 100000 requests per second";
  if (!within(o.duration_s, 0, 1e6)) return "--duration takes up to 1000000 seconds";
  for (const double mean : {o.prompt_tokens, o.output_tokens}) {
    if (!within(mean, 1, 1e6)) return "--prompt-tokens and --output-tokens take 1 to 1000000";
  }
  for (const double sigma : {o.prompt_sigma, o.output_sigma}) {
    if (!within(sigma, 0, 3)) return "--prompt-sigma and --output-sigma take 0 to 3";
  }
  for (const double objective : {o.slo_ttft_ms, o.slo_tpot_ms, o.slo_itl_ms}) {
    if (!within(objective, 0, 1e9)) return "an objective takes up to 1000000000 ms";
  }
  return "";
}

// What flags alone cannot say. Empty if all is well.
std::string Contradiction(const Options& options) {
  if (options.command == Command::kDetokenize) return "";
  if (options.command == Command::kBench) return BenchMistake(options.bench);
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
  Flags flags("Client of the kvrelay service: text generation with prefill and decode in separate workers.", "kvrelay");
  flags.Footer(Footer());
  flags.Version(std::string("kvrelay ") + Version() + " (gRPC " + grpc::Version() + ", protobuf " +
                google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION) + ")");
  AddConnection(flags, options);
  AddGenerating(flags, options);
  AddAsking(flags, options);
  AddBench(flags, options);
  if (const auto exit_code = flags.Parse(argc, argv, console.out, console.err)) return exit_code;
  if (const std::string mistake = Contradiction(*options); !mistake.empty()) {
    console.err << "kvrelay: " << mistake << "\n  See --help." << std::endl;
    return kExitUsage;
  }
  return std::nullopt;
}

}  // namespace kvrelay::cli
