// kvrelay tokenize, detokenize, model.
#include <algorithm>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/json.h"
#include "cli/request.h"
#include "cli/table.h"
#include "cli/text.h"

namespace kvrelay::cli {
namespace {

// The exit code after writing: not 0 when nobody reads any more.
int Written(const Console& console) {
  console.out.flush();
  return console.out.good() ? kExitOk : kExitOther;
}

}  // namespace

int RunTokenize(const Options& options, Client* client, const Console& console) {
  const absl::StatusOr<v1::GenerateRequest> prompt = BuildRequest(options, console);
  if (!prompt.ok()) return ReportUsage(std::string(prompt.status().message()), "Correct the input.", console);
  v1::TokenizeRequest request;
  request.set_model(prompt->model());
  if (prompt->has_chat()) {
    *request.mutable_chat() = prompt->chat();
  } else {
    request.set_text(prompt->text());
  }
  v1::TokenizeResponse response;
  const CallEnd end = client->Call(&Stub::Tokenize, request, &response);
  if (!end.ok()) return ReportEnd(*client, end, console);
  if (options.json) {
    console.out << ToJsonLine(response);
    return Written(console);
  }
  Table table({{"position", Align::kRight}, {"id", Align::kRight}, {"text"}});
  const int rows = std::min(response.ids_size(), response.pieces_size());
  for (int i = 0; i < rows; ++i) {
    table.AddRow({{absl::StrCat(i)}, {absl::StrCat(response.ids(i))}, {Quote(response.pieces(i))}});
  }
  table.Print(console.out, console.color);
  return Written(console);
}

int RunDetokenize(const Options& options, Client* client, const Console& console) {
  v1::DetokenizeRequest request;
  request.set_model(options.generation.model);
  request.mutable_ids()->Add(options.token_ids.begin(), options.token_ids.end());
  request.set_include_control(options.include_control);
  v1::DetokenizeResponse response;
  const CallEnd end = client->Call(&Stub::Detokenize, request, &response);
  if (!end.ok()) return ReportEnd(*client, end, console);
  if (options.json) {
    console.out << ToJsonLine(response);
  } else {
    console.out << (console.out_is_terminal ? SafeForTerminal(response.text()) : response.text()) << '\n';
  }
  return Written(console);
}

int RunModel(const Options& options, Client* client, const Console& console) {
  v1::GetModelRequest request;
  request.set_model(options.generation.model);
  v1::GetModelResponse response;
  const CallEnd end = client->Call(&Stub::GetModel, request, &response);
  if (!end.ok()) return ReportEnd(*client, end, console);
  if (options.json) {
    console.out << ToJsonLine(response);
    return Written(console);
  }
  const auto yes_no = [](bool value) { return value ? "yes" : "no"; };
  const std::string bos = response.has_bos_token_id() ? absl::StrCat(response.bos_token_id()) : "none";
  console.out << "name             " << SafeForTerminal(response.name())                           //
              << "\narchitecture     " << SafeForTerminal(response.architecture())                 //
              << "\nfingerprint      " << SafeForTerminal(response.fingerprint())                  //
              << "\ncontext length   " << FormatCount(response.context_length()) << " tokens"      //
              << "\nvocabulary       " << FormatCount(response.vocabulary_size()) << " token ids"  //
              << "\nEOS token ids    " << absl::StrJoin(response.eos_token_ids(), ", ")            //
              << "\nBOS token id     " << bos                                                      //
              << "\nadds BOS         " << yes_no(response.adds_bos())                              //
              << "\nchat template    " << yes_no(response.has_chat_template()) << '\n';
  return Written(console);
}

}  // namespace kvrelay::cli
