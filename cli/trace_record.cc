#include "cli/trace_record.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "cli/text.h"

namespace kvrelay::cli {
namespace {

// Up to this many positions are named one by one.
constexpr uint32_t kNamedOneByOne = 4;

void AppendNames(const char* letter, uint32_t first, uint32_t end, std::string* names) {
  if (first >= end) return;
  if (!names->empty()) *names += ' ';
  if (end - first > kNamedOneByOne) {
    absl::StrAppend(names, letter, first, "..", letter, end - 1);
    return;
  }
  for (uint32_t i = first; i < end; ++i) absl::StrAppend(names, i == first ? "" : " ", letter, i);
}

// Empty if the two requests selected the same, otherwise where they part.
std::string Difference(const TraceRecord& a, const TraceRecord& b) {
  const auto name = [](const TraceRecord& record) { return ExecutionName(record.asked); };
  const size_t both = std::min(a.tokens.size(), b.tokens.size());
  for (size_t i = 0; i < both; ++i) {
    if (a.tokens[i].id() != b.tokens[i].id()) {
      return absl::StrCat("x", i, " is ", a.tokens[i].id(), " in ", name(a), " and ", b.tokens[i].id(), " in ",
                          name(b));
    }
    if (std::bit_cast<uint32_t>(a.tokens[i].logprob()) != std::bit_cast<uint32_t>(b.tokens[i].logprob())) {
      return absl::StrCat("the log-probability of x", i, " in ", name(a), " and ", name(b), " differs");
    }
  }
  if (a.tokens.size() == b.tokens.size()) return "";
  return absl::StrCat(name(a), " selected ", a.tokens.size(), " tokens and ", name(b), " ", b.tokens.size());
}

}  // namespace

void TraceRecord::Add(const v1::GenerateResponse& response) {
  if (response.has_positions()) positions = response.positions();
  switch (response.event_case()) {
    case v1::GenerateResponse::kStarted:
      started = response.started();
      break;
    case v1::GenerateResponse::kToken:
      tokens.push_back(response.token());
      break;
    case v1::GenerateResponse::kRun:
      runs.push_back(response.run());
      break;
    case v1::GenerateResponse::kFinished:
      finished = response.finished();
      break;
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;
  }
}

double TraceRecord::TotalMilliseconds() const {
  return Milliseconds(finished.timings().first_token()) + Milliseconds(finished.timings().decode());
}

Comparison Compare(const std::vector<TraceRecord>& records) {
  Comparison comparison{.complete = true, .identical = true, .difference = ""};
  const TraceRecord* first = nullptr;
  for (const TraceRecord& record : records) {
    if (!record.end.ok()) {
      comparison.complete = false;
    } else if (first == nullptr) {
      first = &record;
    } else if (comparison.identical) {
      comparison.difference = Difference(*first, record);
      comparison.identical = comparison.difference.empty();
    }
  }
  return comparison;
}

std::string PositionNames(uint32_t first, uint32_t end, uint32_t prompt) {
  std::string names;
  AppendNames("p", first, std::min(end, prompt), &names);
  if (end > prompt) AppendNames("x", std::max(first, prompt) - prompt, end - prompt, &names);
  return names.empty() ? "none" : names;
}

}  // namespace kvrelay::cli
