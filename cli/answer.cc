#include "cli/answer.h"

#include <ostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/json.h"
#include "cli/text.h"

namespace kvrelay::cli {
namespace {

// "x0  504  " Paris"  -0.03125 | 504 " Paris" -0.03125 | 260 " the" -3.9"
std::string TokenLine(const v1::Token& token) {
  std::string line = absl::StrFormat("x%u  %u  %s", token.index(), token.id(), Quote(token.text()));
  if (token.has_logprob()) absl::StrAppendFormat(&line, "  %.6g", token.logprob());
  for (const v1::TokenLogprob& top : token.top()) {
    absl::StrAppendFormat(&line, " | %u %s %.6g", top.id(), Quote(top.text()), top.logprob());
  }
  return line + '\n';
}

std::string EventText(const v1::GenerateResponse& response) {
  if (response.has_token()) return response.token().text();
  if (response.has_finished()) return response.finished().text();
  return "";
}

std::string Rendered(const v1::GenerateResponse& response, AnswerFormat format, const Console& console) {
  switch (format) {
    case AnswerFormat::kJson:
      return ToJsonLine(response);
    case AnswerFormat::kTokens:
      if (response.has_token()) return TokenLine(response.token());
      return response.finished().text().empty() ? "" : "   held back: " + Quote(response.finished().text()) + '\n';
    case AnswerFormat::kText:
      break;
  }
  return console.out_is_terminal ? SafeForTerminal(EventText(response)) : EventText(response);
}

}  // namespace

Answer StreamAnswer(const v1::GenerateRequest& request, AnswerFormat format, Client* client, const Console& console) {
  Answer answer;
  const auto show = [&](const v1::GenerateResponse& response) {
    if (response.has_started()) answer.started = response.started();
    if (response.has_finished()) answer.finished = response.finished();
    answer.text += EventText(response);
    console.out << Rendered(response, format, console) << std::flush;
    return console.out.good();
  };
  const auto tell_resumed = [&](uint32_t resumes, uint64_t tokens) {
    if (format == AnswerFormat::kJson) console.out << ResumedLine(resumes, client->address(), tokens) << std::flush;
  };
  answer.end = client->Generate(request, show, tell_resumed);
  if (format == AnswerFormat::kText && !answer.text.empty() && !absl::EndsWith(answer.text, "\n")) {
    console.out << std::endl;
  }
  return answer;
}

}  // namespace kvrelay::cli
