// kvrelay generate, kvrelay run.
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/request.h"
#include "cli/statistics.h"

namespace kvrelay::cli {

int RunGenerate(const Options& options, Client* client, const Console& console) {
  const absl::StatusOr<v1::GenerateRequest> request = BuildRequest(options, console);
  if (!request.ok()) return ReportUsage(std::string(request.status().message()), "Correct the input.", console);
  const AnswerFormat format = options.json                      ? AnswerFormat::kJson
                              : options.generation.logprobs > 0 ? AnswerFormat::kTokens
                                                                : AnswerFormat::kText;
  const Answer answer = StreamAnswer(*request, format, client, console);
  if (answer.end.ok() && !options.quiet && !options.json) {
    console.err << StatisticsLine(answer.started, answer.finished, answer.end) << std::endl;
  }
  return ReportEnd(*client, answer.end, console);
}

}  // namespace kvrelay::cli
