#include "cli/statistics.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/options.h"
#include "cli/text.h"

namespace kvrelay::cli {

double DecodeTokensPerSecond(const v1::Finished& finished) {
  const double milliseconds = Milliseconds(finished.timings().decode());
  // A stop string may drop tokens that took their time all the same.
  const uint64_t tokens = uint64_t{finished.usage().completion()} + finished.usage().dropped();
  return tokens < 2 || milliseconds <= 0 ? 0 : static_cast<double>(tokens - 1) * 1e3 / milliseconds;
}

std::string ResumedText(const CallEnd& end) {
  if (end.resumes == 0) return "";
  return absl::StrCat("resumed ", end.resumes, end.resumes == 1 ? " time" : " times", ", times and rates since then");
}

std::string StatisticsLine(const v1::Started& started, const v1::Finished& finished, const CallEnd& end) {
  const v1::Usage& usage = finished.usage();
  const double rate = DecodeTokensPerSecond(finished);
  std::string line = absl::StrCat(FormatCount(usage.prompt()), usage.prompt() == 1 ? " prompt token" : " prompt tokens",
                                  " | prefill ", FormatMilliseconds(Milliseconds(finished.timings().prefill())), " | ",
                                  FormatCount(finished.kv_bytes_shipped()), " KV bytes shipped | ",
                                  FormatCount(end.tokens), end.tokens == 1 ? " token" : " tokens");
  if (rate > 0) absl::StrAppendFormat(&line, ", decode %.1f tokens/s", rate);
  absl::StrAppend(&line, " | first token ", FormatMilliseconds(Milliseconds(finished.timings().first_token())), " | ",
                  ExecutionName(started.placement().execution()));
  if (!started.placement().reason().empty()) {
    absl::StrAppend(&line, " (", SafeForTerminal(started.placement().reason()), ")");
  }
  if (usage.cached() > 0) absl::StrAppend(&line, " | ", FormatCount(usage.cached()), " prompt tokens reused");
  if (usage.drafted() > 0)
    absl::StrAppend(&line, " | ", FormatCount(usage.accepted()), " of ", FormatCount(usage.drafted()),
                    " guesses right");
  if (!finished.stop().empty()) absl::StrAppend(&line, " | stopped at ", Quote(finished.stop()));
  if (finished.attempts() > 1) absl::StrAppend(&line, " | ", finished.attempts(), " prefill attempts");
  if (finished.replans() > 0) absl::StrAppend(&line, " | planned anew ", finished.replans(), " times");
  if (finished.moves() > 0) absl::StrAppend(&line, " | moved ", finished.moves(), " times");
  if (end.resumes > 0) absl::StrAppend(&line, " | ", ResumedText(end));
  return line;
}

}  // namespace kvrelay::cli
