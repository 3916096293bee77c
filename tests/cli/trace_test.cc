// The tables of `kvrelay trace`, letter by letter.
#include <gtest/gtest.h>

#include <sstream>

#include "cli/trace_record.h"
#include "cli/trace_view.h"

namespace kvrelay::cli {
namespace {

struct RunFigures {
  uint32_t first, end, computed, recomputed, appended, read, token, kv_ready;
};

TraceRecord Record(v1::Execution execution, const std::vector<RunFigures>& runs) {
  TraceRecord record;
  record.asked = execution;
  record.started.mutable_placement()->set_execution(execution);
  record.started.mutable_placement()->set_decode_instance("d1");
  record.started.mutable_placement()->set_reason("asked for");
  record.started.set_prompt_tokens(3);
  record.started.set_seed(7);
  for (const uint32_t id : {10, 11, 12}) record.started.add_prompt_token_ids(id);
  record.positions.set_prompt(3);
  for (const RunFigures& figures : runs) {
    v1::RunTrace run;
    run.set_run(static_cast<uint32_t>(record.runs.size()) + 1);
    run.set_instance("d1");
    run.set_first_position(figures.first);
    run.set_end_position(figures.end);
    run.set_computed(figures.computed);
    run.set_recomputed(figures.recomputed);
    run.set_appended(figures.appended);
    run.set_positions_read(figures.read);
    run.set_token_id(figures.token);
    run.set_flops(uint64_t{3'000'000'000} * (figures.computed + figures.recomputed));
    run.set_kv_bytes_read(uint64_t{3000} * figures.first);
    run.set_kv_ready(figures.kv_ready);
    run.set_history(4 + static_cast<uint32_t>(record.runs.size()));
    run.mutable_duration()->set_nanos(1'500'000);
    record.runs.push_back(run);
    v1::Token token;
    token.set_index(static_cast<uint32_t>(record.tokens.size()));
    token.set_id(figures.token);
    record.tokens.push_back(token);
    record.positions.set_computed(record.positions.computed() + figures.computed + figures.recomputed);
    record.positions.set_recomputed(record.positions.recomputed() + figures.recomputed);
    record.positions.set_kv_ready(figures.kv_ready);
    record.positions.set_selected(record.positions.selected() + 1);
  }
  record.finished.mutable_timings()->mutable_first_token()->set_nanos(2'000'000);
  record.finished.mutable_timings()->mutable_decode()->set_nanos(3'000'000);
  return record;
}

TraceRecord Local() {
  return Record(v1::EXECUTION_LOCAL, {{0, 3, 3, 0, 3, 3, 20, 3}, {3, 4, 1, 0, 1, 4, 21, 4}, {4, 5, 1, 0, 1, 5, 22, 5}});
}

TraceRecord NoCache() {
  TraceRecord record =
      Record(v1::EXECUTION_NO_CACHE, {{0, 3, 3, 0, 3, 3, 20, 0}, {0, 4, 1, 3, 4, 4, 21, 0}, {0, 5, 1, 4, 5, 5, 22, 0}});
  record.finished.mutable_timings()->mutable_decode()->set_nanos(13'000'000);
  return record;
}

std::string Printed(const TraceRecord& record, bool color) {
  std::ostringstream out;
  PrintTrace(record, {{20, " Par"}, {21, "is\n"}}, out, color);
  return out.str();
}

TEST(PrintTrace, IsTheArticlesTableWithCache) {
  EXPECT_EQ(Printed(Local(), false), R"(
local: decode on d1 (asked for)
run          tokens in  first time  recomputed  K/V appended  K/V read  KV ready  selected      history    time  shipped  worker
-----------  ---------  ----------  ----------  ------------  --------  --------  ------------  -------  ------  -------  ------
1 (prefill)  p0 p1 p2   0..2        none        0..2          0..2             3  x0 20 " Par"        4  1.5 ms      0 B  d1
2 (decode)   x0         3           none        3             0..3             4  x1 21 "is\n"        5  1.5 ms      0 B  d1
3 (decode)   x1         4           none        4             0..4             5  x2 22               6  1.5 ms      0 B  d1
positions: computed 5, of these again 0; reused 0, received 0, shipped 0, discarded 0; prompt 3 + selected 3 - KV ready 5 = 1
total 5.0 ms, first token 2.0 ms, 0 KV bytes shipped
)");
}

TEST(PrintTrace, IsTheArticlesTableWithoutCache) {
  EXPECT_EQ(Printed(NoCache(), false), R"(
no-cache: decode on d1 (asked for)
run          tokens in       first time  recomputed  K/V appended  K/V read  KV ready  selected      history    time  shipped  worker
-----------  --------------  ----------  ----------  ------------  --------  --------  ------------  -------  ------  -------  ------
1 (prefill)  p0 p1 p2        0..2        none        0..2          0..2             0  x0 20 " Par"        4  1.5 ms      0 B  d1
2 (decode)   p0 p1 p2 x0     3           0..2        0..3          0..3             0  x1 21 "is\n"        5  1.5 ms      0 B  d1
3 (decode)   p0 p1 p2 x0 x1  4           0..3        0..4          0..4             0  x2 22               6  1.5 ms      0 B  d1
positions: computed 12, of these again 7; reused 0, received 0, shipped 0, discarded 0; prompt 3 + selected 3 - KV ready 0 = 6
total 15.0 ms, first token 2.0 ms, 0 KV bytes shipped
)");
}

TEST(PrintTrace, ColoursFirstTimeOrangeAndRecomputedPurple) {
  const std::string table = Printed(NoCache(), true);
  EXPECT_NE(table.find("\033[38;5;208m4\033[0m"), std::string::npos) << table;
  EXPECT_NE(table.find("\033[38;5;135m0..3\033[0m"), std::string::npos) << table;
  EXPECT_EQ(table.find("\033[38;5;135mnone"), std::string::npos) << "nothing to colour";
}

TEST(PrintTrace, ShowsCountsWhenTheRangesDoNotAddUp) {
  TraceRecord record = Record(v1::EXECUTION_LOCAL, {{5, 2, 1, 4000000000, 9, 0, 1, 0}});
  const std::string table = Printed(record, false);
  EXPECT_NE(table.find("4,000,000,000 positions"), std::string::npos) << table;
  EXPECT_NE(table.find("1 position "), std::string::npos) << table;
  EXPECT_NE(table.find("9 positions"), std::string::npos) << table;
}

TEST(PrintTrace, OfARequestThatFailedShowsTheRunsItHad) {
  TraceRecord record = Local();
  record.runs.resize(1);
  record.end.status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  const std::string table = Printed(record, false);
  EXPECT_NE(table.find("1 (prefill)"), std::string::npos);
  EXPECT_EQ(table.find("total"), std::string::npos) << table;
}

TEST(PositionNames, AreThoseOfTheArticle) {
  EXPECT_EQ(PositionNames(0, 3, 3), "p0 p1 p2");
  EXPECT_EQ(PositionNames(3, 4, 3), "x0");
  EXPECT_EQ(PositionNames(0, 5, 3), "p0 p1 p2 x0 x1");
  EXPECT_EQ(PositionNames(0, 700, 700), "p0..p699");
  EXPECT_EQ(PositionNames(0, 710, 700), "p0..p699 x0..x9");
  EXPECT_EQ(PositionNames(64, 66, 66), "p64 p65");
  EXPECT_EQ(PositionNames(3, 3, 3), "none");
  EXPECT_EQ(PositionNames(9, 2, 3), "none");
}

TEST(PrintPrompt, NamesEveryTokenOfAShortPrompt) {
  std::ostringstream out;
  PrintPrompt(Local().started, {{10, "The"}, {11, " \"a\""}}, out);
  EXPECT_EQ(out.str(), "prompt: 3 tokens, seed 7\n  p0 10 \"The\"  p1 11 \" \\\"a\\\"\"  p2 12\n");
}

TEST(PrintPrompt, ShowsTheEndsOfALongPrompt) {
  v1::Started started;
  started.set_prompt_tokens(2000);
  for (uint32_t i = 0; i < 2000; ++i) started.add_prompt_token_ids(i);
  std::ostringstream out;
  PrintPrompt(started, {}, out);
  EXPECT_NE(out.str().find("p23 23"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("... (1,968 more)  p1992 1992"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("p1999 1999\n"), std::string::npos) << out.str();
  EXPECT_EQ(out.str().find("p24 24"), std::string::npos) << out.str();
}

std::string Compared(const std::vector<TraceRecord>& records) {
  std::ostringstream out;
  PrintComparison(records, out, false);
  return out.str();
}

TEST(PrintComparison, OfEqualTokens) {
  EXPECT_EQ(Compared({Local(), NoCache()}), R"(
tokens: identical in local, no-cache
execution    total   ratio  computed        work  K/V read
---------  -------  ------  --------  ----------  --------
local       5.0 ms  1.00 x         5  15.0 GFLOP   21.0 kB
no-cache   15.0 ms  3.00 x        12  36.0 GFLOP       0 B
)");
}

TEST(PrintComparison, NamesTheFirstDifference) {
  TraceRecord other = NoCache();
  other.tokens[1].set_id(99);
  EXPECT_NE(Compared({Local(), other}).find("DIFFERENT: x1 is 21 in local and 99 in no-cache\n"), std::string::npos);
  other = NoCache();
  other.tokens.pop_back();
  EXPECT_NE(Compared({Local(), other}).find("local selected 3 tokens and no-cache 2\n"), std::string::npos);
  other = NoCache();
  other.tokens[2].set_logprob(-0.0f);
  EXPECT_NE(Compared({Local(), other}).find("the log-probability of x2"), std::string::npos) << "bits, not values";
}

TEST(PrintComparison, SaysWhatFailed) {
  TraceRecord failed;
  failed.asked = v1::EXECUTION_SPLIT;
  failed.end.status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "none");
  const std::string text = Compared({failed, Local(), NoCache()});
  EXPECT_NE(text.find("identical in local, no-cache; failed: split\n"), std::string::npos) << text;
  EXPECT_FALSE(Compare({failed, Local()}).complete);
  EXPECT_NE(Compared({failed}).find("nothing to compare; failed: split"), std::string::npos);
}

}  // namespace
}  // namespace kvrelay::cli
