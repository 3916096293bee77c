#include "cli/trace_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/options.h"
#include "cli/statistics.h"
#include "cli/table.h"
#include "cli/text.h"

namespace kvrelay::cli {
namespace {

constexpr uint32_t kShownHead = 24;
constexpr uint32_t kShownTail = 8;
constexpr size_t kLineWidth = 110;

std::string TokenText(uint32_t id, const Pieces& pieces) {
  const auto piece = pieces.find(id);
  return piece == pieces.end() ? absl::StrCat(id) : absl::StrCat(id, " ", Quote(piece->second));
}

std::string Positions(uint64_t count) {
  return absl::StrCat(FormatCount(count), count == 1 ? " position" : " positions");
}

// A count of positions as the range it covers, if the run's input range shows which it is; else as a number.
struct RunRanges {
  std::string first_time;
  std::string recomputed;
  std::string appended;
  std::string read;
};

RunRanges Ranges(const v1::RunTrace& run) {
  const uint64_t first = run.first_position();
  const uint64_t end = run.end_position();
  RunRanges ranges;
  // What is computed again is always what came before, so it lies in front of what is new.
  if (uint64_t{run.computed()} + run.recomputed() == end - std::min(first, end)) {
    ranges.recomputed = FormatRange(first, first + run.recomputed());
    ranges.first_time = FormatRange(first + run.recomputed(), end);
  } else {
    ranges.recomputed = Positions(run.recomputed());
    ranges.first_time = Positions(run.computed());
  }
  ranges.appended = run.appended() <= end ? FormatRange(end - run.appended(), end) : Positions(run.appended());
  ranges.read = FormatRange(0, run.positions_read());
  return ranges;
}

std::vector<Cell> RunRow(const TraceRecord& record, const v1::RunTrace& run, const Pieces& pieces) {
  const uint32_t prompt = record.started.prompt_tokens();
  const RunRanges ranges = Ranges(run);
  const uint32_t selected = run.history() - std::min(run.history(), prompt + 1);
  const auto colored = [](const std::string& text, Color color) {
    return Cell{text, text == "none" ? Color::kNone : color};
  };
  const bool from_start = run.first_position() == 0 && record.started.placement().execution() != v1::EXECUTION_NO_CACHE;
  return {{absl::StrCat(run.run(), run.run() == 1 || from_start ? " (prefill)" : " (decode)")},
          {PositionNames(run.first_position(), run.end_position(), prompt)},
          colored(ranges.first_time, Color::kOrange),
          colored(ranges.recomputed, Color::kPurple),
          colored(ranges.appended, Color::kOrange),
          colored(ranges.read, Color::kGreen),
          {absl::StrCat(run.kv_ready())},
          {absl::StrCat("x", selected, " ", TokenText(run.token_id(), pieces))},
          {absl::StrCat(run.history())},
          {FormatMilliseconds(Milliseconds(run.duration()))},
          {absl::StrCat(FormatCount(run.bytes_shipped()), " B")},
          {SafeForTerminal(run.instance())}};
}

void PrintTotals(const TraceRecord& record, std::ostream& out) {
  const v1::PositionAccounting& p = record.positions;
  out << "positions: computed " << FormatCount(p.computed()) << ", of these again " << FormatCount(p.recomputed())
      << "; reused " << FormatCount(p.reused()) << ", received " << FormatCount(p.received()) << ", shipped "
      << FormatCount(p.shipped()) << ", discarded " << FormatCount(p.discarded()) << "; prompt "
      << FormatCount(p.prompt()) << " + selected " << FormatCount(p.selected()) << " - KV ready "
      << FormatCount(p.kv_ready()) << " = " << (int64_t{p.prompt()} + p.selected() - p.kv_ready()) << '\n';
  if (!record.end.ok()) return;
  out << "total " << FormatMilliseconds(record.TotalMilliseconds()) << ", first token "
      << FormatMilliseconds(Milliseconds(record.finished.timings().first_token())) << ", "
      << FormatCount(record.finished.kv_bytes_shipped()) << " KV bytes shipped\n";
  if (record.end.resumes > 0) out << ResumedText(record.end) << '\n';
}

std::string Where(const v1::Started& started) {
  const v1::Placement& placement = started.placement();
  std::string where = ExecutionName(placement.execution());
  if (!placement.prefill_instance().empty()) absl::StrAppend(&where, ": prefill on ", placement.prefill_instance());
  if (!placement.decode_instance().empty()) {
    absl::StrAppend(&where, placement.prefill_instance().empty() ? ": decode on " : ", decode on ",
                    placement.decode_instance());
  }
  if (!placement.reason().empty()) absl::StrAppend(&where, " (", placement.reason(), ")");
  return SafeForTerminal(where);
}

}  // namespace

std::vector<uint32_t> ShownPromptPositions(uint32_t prompt_tokens) {
  std::vector<uint32_t> positions;
  for (uint32_t i = 0; i < prompt_tokens; ++i) {
    const bool shown = prompt_tokens <= kShownHead + kShownTail || i < kShownHead || i >= prompt_tokens - kShownTail;
    if (shown) positions.push_back(i);
  }
  return positions;
}

void PrintPrompt(const v1::Started& started, const Pieces& pieces, std::ostream& out) {
  const auto prompt_tokens = static_cast<uint32_t>(started.prompt_token_ids_size());
  out << "prompt: " << FormatCount(started.prompt_tokens()) << (started.prompt_tokens() == 1 ? " token" : " tokens")
      << ", seed " << started.seed() << '\n';
  std::string line(1, ' ');
  uint32_t next = 0;
  for (const uint32_t position : ShownPromptPositions(prompt_tokens)) {
    std::string item =
        absl::StrCat(" p", position, " ", TokenText(started.prompt_token_ids(static_cast<int>(position)), pieces));
    if (position != next) item = absl::StrCat(" ... (", FormatCount(position - next), " more) ", item);
    next = position + 1;
    if (DisplayWidth(line) + DisplayWidth(item) > kLineWidth && line.size() > 1) {
      out << line << '\n';
      line.assign(1, ' ');
    }
    absl::StrAppend(&line, item, " ");
  }
  out << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
}

void PrintTrace(const TraceRecord& record, const Pieces& pieces, std::ostream& out, bool color) {
  out << '\n' << Where(record.started) << '\n';
  Table table({{"run"},
               {"tokens in"},
               {"first time"},
               {"recomputed"},
               {"K/V appended"},
               {"K/V read"},
               {"KV ready", Align::kRight},
               {"selected"},
               {"history", Align::kRight},
               {"time", Align::kRight},
               {"shipped", Align::kRight},
               {"worker"}});
  for (const v1::RunTrace& run : record.runs) table.AddRow(RunRow(record, run, pieces));
  table.Print(out, color);
  PrintTotals(record, out);
}

void PrintComparison(const std::vector<TraceRecord>& records, std::ostream& out, bool color) {
  const Comparison comparison = Compare(records);
  std::vector<std::string> names;
  std::vector<std::string> failed;
  double shortest = 0;
  for (const TraceRecord& record : records) {
    if (!record.end.ok()) {
      failed.push_back(ExecutionName(record.asked));
      continue;
    }
    names.push_back(ExecutionName(record.asked));
    shortest = shortest == 0 ? record.TotalMilliseconds() : std::min(shortest, record.TotalMilliseconds());
  }
  out << "\ntokens: ";
  if (names.size() < 2) {
    out << "nothing to compare";
  } else if (comparison.identical) {
    out << Colored("identical", Color::kGreen, color) << " in " << absl::StrJoin(names, ", ");
  } else {
    out << Colored("DIFFERENT", Color::kRed, color) << ": " << comparison.difference;
  }
  if (!failed.empty()) out << "; failed: " << absl::StrJoin(failed, ", ");
  out << '\n';
  if (names.empty()) return;
  Table times({{"execution"},
               {"total", Align::kRight},
               {"ratio", Align::kRight},
               {"computed", Align::kRight},
               {"work", Align::kRight},
               {"K/V read", Align::kRight}});
  for (const TraceRecord& record : records) {
    if (!record.end.ok()) continue;
    const double total = record.TotalMilliseconds();
    double flops = 0, read = 0;
    for (const v1::RunTrace& run : record.runs) {
      flops += static_cast<double>(run.flops());
      read += static_cast<double>(run.kv_bytes_read());
    }
    times.AddRow({{ExecutionName(record.asked)},
                  {FormatMilliseconds(total)},
                  {shortest > 0 ? absl::StrFormat("%.2f x", total / shortest) : "-"},
                  {FormatCount(record.positions.computed())},
                  {FormatQuantity(flops, "FLOP")},
                  {FormatQuantity(read, "B")}});
  }
  times.Print(out, color);
}

}  // namespace kvrelay::cli
