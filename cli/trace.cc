// kvrelay trace.
#include <ostream>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/json.h"
#include "cli/request.h"
#include "cli/trace_record.h"
#include "cli/trace_view.h"

namespace kvrelay::cli {
namespace {

constexpr uint32_t kDefaultMaxTokens = 8;

TraceRecord Record(const v1::GenerateRequest& request, bool json, Client* client, const Console& console) {
  TraceRecord record;
  record.asked = request.execution();
  const auto show = [&](const v1::GenerateResponse& response) {
    record.Add(response);
    if (json) console.out << ToJsonLine(response) << std::flush;
    return console.out.good();
  };
  const auto tell_resumed = [&](uint32_t resumes, uint64_t tokens) {
    if (json) console.out << ResumedLine(resumes, client->address(), tokens) << std::flush;
  };
  record.end = client->Generate(request, show, tell_resumed);
  return record;
}

// Asks for the text of every id that the tables show. Ids that cannot be had are shown by number.
Pieces FetchPieces(const v1::GenerateRequest& request, const TraceRecord& record, Client* client) {
  std::set<uint32_t> ids;
  const auto prompt_tokens = static_cast<uint32_t>(record.started.prompt_token_ids_size());
  for (const uint32_t position : ShownPromptPositions(prompt_tokens)) {
    ids.insert(record.started.prompt_token_ids(static_cast<int>(position)));
  }
  for (const v1::Token& token : record.tokens) ids.insert(token.id());
  Pieces pieces;
  for (const uint32_t id : ids) {
    v1::DetokenizeRequest detokenize;
    detokenize.set_model(request.model());
    detokenize.add_ids(id);
    detokenize.set_include_control(true);
    v1::DetokenizeResponse response;
    if (!client->Call(&Stub::Detokenize, detokenize, &response).ok()) break;
    pieces[id] = response.text();
  }
  return pieces;
}

// Returns the exit code of the request.
int Show(const v1::GenerateRequest& request, const TraceRecord& record, bool with_prompt, Client* client,
         const Console& console) {
  if (record.end.interrupted || record.end.output_closed) return ReportEnd(*client, record.end, console);
  if (record.started.prompt_tokens() > 0) {
    const Pieces pieces = FetchPieces(request, record, client);
    if (with_prompt) PrintPrompt(record.started, pieces, console.out);
    PrintTrace(record, pieces, console.out, console.color);
  } else if (!record.end.ok()) {
    console.out << '\n' << ExecutionName(record.asked) << ": failed\n";
  }
  console.out.flush();
  return ReportEnd(*client, record.end, console);
}

int RunComparison(v1::GenerateRequest request, bool json, Client* client, const Console& console) {
  std::vector<TraceRecord> records;
  int exit_code = kExitOk;
  bool prompt_shown = false;
  const uint32_t number = std::random_device()();
  for (const v1::Execution execution : {v1::EXECUTION_SPLIT, v1::EXECUTION_LOCAL, v1::EXECUTION_NO_CACHE}) {
    request.set_execution(execution);
    // Each from nothing: none reuses what another one, or an earlier comparison, has left.
    request.set_cache_salt(absl::StrCat("compare-", number, "-", ExecutionName(execution)));
    records.push_back(Record(request, json, client, console));
    const TraceRecord& record = records.back();
    const bool has_prompt = record.started.prompt_tokens() > 0;
    const int code = json ? ReportEnd(*client, record.end, console)
                          : Show(request, record, has_prompt && !prompt_shown, client, console);
    prompt_shown = prompt_shown || has_prompt;
    if (exit_code == kExitOk) exit_code = code;
    if (record.end.interrupted || record.end.output_closed) return code;
    // A seed drawn by the service holds for the others too.
    if (has_prompt) request.mutable_sampling()->set_seed(record.started.seed());
  }
  if (json) {
    console.out << ComparisonLine(records) << std::flush;
  } else {
    PrintComparison(records, console.out, console.color);
  }
  console.out.flush();
  if (exit_code == kExitOk && !(Compare(records).identical && console.out.good())) exit_code = kExitOther;
  return exit_code;
}

}  // namespace

int RunTrace(const Options& options, Client* client, const Console& console) {
  absl::StatusOr<v1::GenerateRequest> request = BuildRequest(options, console);
  if (!request.ok()) return ReportUsage(std::string(request.status().message()), "Correct the input.", console);
  request->set_trace(true);
  if (!request->has_max_tokens()) request->set_max_tokens(kDefaultMaxTokens);
  if (options.compare) return RunComparison(*std::move(request), options.json, client, console);
  const TraceRecord record = Record(*request, options.json, client, console);
  if (options.json) return ReportEnd(*client, record.end, console);
  return Show(*request, record, /*with_prompt=*/true, client, console);
}

}  // namespace kvrelay::cli
