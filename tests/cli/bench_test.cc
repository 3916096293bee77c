// Load tests: what is drawn, what is computed from times, and whole runs against a service on loopback.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "cli/bench/load_run.h"
#include "cli/bench/report.h"
#include "cli/bench/workload.h"
#include "common/rpc/duration.h"
#include "tests/cli/app_fixture.h"

namespace kvrelay::cli::bench {
namespace {

using kvrelay::bench::v1::Distribution;
using kvrelay::bench::v1::Phases;
using kvrelay::bench::v1::Report;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Summary, PercentilesAreLinearBetweenValues) {
  // numpy.percentile([4, 1, 3, 2], [50, 90, 95, 99]) = [2.5, 3.7, 3.85, 3.97]
  const Distribution summary = Summarize({4, 1, 3, 2});
  EXPECT_EQ(summary.count(), 4u);
  EXPECT_DOUBLE_EQ(summary.mean(), 2.5);
  EXPECT_DOUBLE_EQ(summary.p50(), 2.5);
  EXPECT_DOUBLE_EQ(summary.p90(), 3.7);
  EXPECT_DOUBLE_EQ(summary.p95(), 3.85);
  EXPECT_DOUBLE_EQ(summary.p99(), 3.97);
  EXPECT_DOUBLE_EQ(summary.max(), 4);
  EXPECT_DOUBLE_EQ(Summarize({7}).p99(), 7);
  EXPECT_EQ(Summarize({}).count(), 0u);
}

TEST(ArrivalTimes, ArePoissonAndRepeatable) {
  constexpr int kCount = 20000;
  Arrivals arrivals(50, 1), same(50, 1), other(50, 2);
  std::vector<double> gaps;
  absl::Duration before, other_end;
  for (int i = 0; i < kCount; ++i) {
    const absl::Duration at = arrivals.Next();
    EXPECT_GE(at, before);
    EXPECT_EQ(at, same.Next());
    other_end = other.Next();
    gaps.push_back(absl::ToDoubleSeconds(at - std::exchange(before, at)));
  }
  EXPECT_NE(before, other_end);
  // Mean and standard deviation of an exponential distribution are equal.
  double mean = 0, square = 0;
  for (const double gap : gaps) mean += gap / kCount;
  for (const double gap : gaps) square += (gap - mean) * (gap - mean) / kCount;
  EXPECT_THAT(mean, DoubleNear(0.02, 0.0005));
  EXPECT_THAT(std::sqrt(square), DoubleNear(0.02, 0.001));
}

TEST(TokenCounts, AreLogNormalWithTheMeanAskedFor) {
  constexpr int kCount = 20000;
  Lengths lengths(200, 0.8, 100'000, 1);
  double mean = 0;
  int above_median = 0;
  for (int i = 0; i < kCount; ++i) {
    const double length = lengths.Next();
    mean += length / kCount;
    if (length > 200 * std::exp(-0.8 * 0.8 / 2)) ++above_median;
  }
  EXPECT_THAT(mean, DoubleNear(200, 5));
  EXPECT_NEAR(above_median, kCount / 2, kCount / 50);
  Lengths constant(7, 0, 100, 1);
  EXPECT_EQ(constant.Next(), 7u);
  Lengths limited(50, 3, 60, 1);
  for (int i = 0; i < 1000; ++i) {
    const uint32_t length = limited.Next();
    EXPECT_GE(length, 1u);
    EXPECT_LE(length, 60u);
  }
}

v1::GetModelResponse SmallModel() {
  v1::GetModelResponse model;
  model.set_vocabulary_size(8);
  model.set_context_length(64);
  model.set_bos_token_id(1);
  model.add_eos_token_ids(2);
  return model;
}

TEST(WorkloadTest, AnotherRateChangesArrivalsAlone) {
  Workload slow({.rate = 1, .prompt_tokens = 20, .prompt_sigma = 1, .output_sigma = 1, .seed = 5}, SmallModel());
  Workload fast({.rate = 9, .prompt_tokens = 20, .prompt_sigma = 1, .output_sigma = 1, .seed = 5}, SmallModel());
  Workload other({.rate = 9, .prompt_tokens = 20, .prompt_sigma = 1, .output_sigma = 1, .seed = 6}, SmallModel());
  bool differs = false;
  for (int i = 0; i < 200; ++i) {
    const PlannedRequest a = slow.Next(), b = fast.Next(), c = other.Next();
    EXPECT_GT(a.due, b.due);
    EXPECT_EQ(a.request.SerializeAsString(), b.request.SerializeAsString());
    differs = differs || b.request.SerializeAsString() != c.request.SerializeAsString();
    const auto& ids = a.request.token_ids().ids();
    EXPECT_LE(ids.size() + static_cast<int>(a.request.max_tokens()), 64) << "fits the context";
    EXPECT_THAT(ids, Each(::testing::AllOf(::testing::Lt(8u), ::testing::Ne(1u), ::testing::Ne(2u))));
  }
  EXPECT_TRUE(differs);
}

class ItemFile : public ::testing::Test {
 protected:
  std::string Write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  std::string Mistake(const std::string& text) { return std::string(ReadItems(Write(text)).status().message()); }

  const std::string path_ = ::testing::TempDir() + "/items.jsonl";
};

TEST_F(ItemFile, GivesPromptsLengthsAndArrivals) {
  const auto items =
      ReadItems(Write("{\"prompt\": \"one\", \"max_tokens\": 3, \"arrival_s\": 0.5}\n\n"
                      "{\"token_ids\": [4, 5], \"max_tokens\": 2, \"arrival_s\": 1}\n"
                      "{\"prompt_tokens\": 6, \"max_tokens\": 1, \"arrival_s\": 1}"));
  ASSERT_TRUE(items.ok()) << items.status();
  Workload workload({.items = *items}, SmallModel());
  const PlannedRequest text = workload.Next(), ids = workload.Next(), drawn = workload.Next();
  EXPECT_EQ(text.request.text(), "one");
  EXPECT_EQ(text.request.max_tokens(), 3u);
  EXPECT_EQ(text.due, absl::Milliseconds(500));
  EXPECT_THAT(ids.request.token_ids().ids(), ElementsAre(4, 5));
  EXPECT_EQ(drawn.request.token_ids().ids_size(), 6);
}

TEST_F(ItemFile, NamesTheLineThatIsWrong) {
  EXPECT_THAT(std::string(ReadItems("/nowhere").status().message()), HasSubstr("/nowhere"));
  EXPECT_THAT(Mistake(""), HasSubstr("holds no request"));
  EXPECT_THAT(Mistake("{\"prompt\": \"a\", \"max_tokens\": 1}\nnonsense"), HasSubstr("line 2 is no request"));
  EXPECT_THAT(Mistake("{\"prompt\": \"a\", \"max_tokens\": 1, \"x\": 1}"), HasSubstr("line 1 is no request"));
  EXPECT_THAT(Mistake("{\"max_tokens\": 1}"), HasSubstr("needs one of"));
  EXPECT_THAT(Mistake("{\"prompt\": \"a\", \"prompt_tokens\": 3, \"max_tokens\": 1}"), HasSubstr("needs one of"));
  EXPECT_THAT(Mistake("{\"prompt\": \"a\"}"), HasSubstr("max_tokens"));
  EXPECT_THAT(Mistake("{\"prompt_tokens\": 4000000000, \"max_tokens\": 1}"), HasSubstr("1048576"));
  EXPECT_THAT(Mistake("{\"prompt\": \"a\", \"max_tokens\": 1, \"arrival_s\": -1}"), HasSubstr("arrival_s"));
  EXPECT_THAT(Mistake("{\"prompt\": \"a\", \"max_tokens\": 1, \"arrival_s\": 2}\n"
                      "{\"prompt\": \"a\", \"max_tokens\": 1, \"arrival_s\": 1}"),
              HasSubstr("must ascend"));
  EXPECT_THAT(
      Mistake("{\"prompt\": \"a\", \"max_tokens\": 1, \"arrival_s\": 2}\n{\"prompt\": \"a\", \"max_tokens\": 1}"),
      HasSubstr("all lines"));
}

// Due at 1 s, sent 5 ms late, tokens at 105, 125 and 165 ms after it was due.
RequestRecord SomeRecord() {
  RequestRecord record;
  record.due = absl::Seconds(1);
  record.sent = record.due + absl::Milliseconds(5);
  for (const int ms : {105, 125, 165}) record.tokens.push_back(record.due + absl::Milliseconds(ms));
  record.prompt_tokens = 30;
  const auto set = [](google::protobuf::Duration* duration, int ms) {
    *duration = rpc::ToProto(absl::Milliseconds(ms));
  };
  set(record.timings.mutable_router_queue(), 10);
  set(record.timings.mutable_prefill_queue(), 20);
  set(record.timings.mutable_prefill(), 50);
  set(record.timings.mutable_first_token(), 92);
  set(record.timings.mutable_transfer(), 40);
  set(record.timings.mutable_transfer_hidden(), 33);
  return record;
}

TEST(ReportTest, TimesFollowTheirDefinitions) {
  const Report report = MakeReport({.records = {SomeRecord()}, .duration = absl::Seconds(2), .in_flight_max = 1}, {});
  EXPECT_DOUBLE_EQ(report.ttft_ms().mean(), 105);
  EXPECT_DOUBLE_EQ(report.e2e_ms().mean(), 165);
  EXPECT_DOUBLE_EQ(report.tpot_ms().mean(), 30);
  EXPECT_EQ(report.itl_ms().count(), 2u);
  EXPECT_DOUBLE_EQ(report.itl_ms().max(), 40);
  EXPECT_DOUBLE_EQ(report.output_tokens_per_s(), 1.5);
  EXPECT_DOUBLE_EQ(report.prompt_tokens_per_s(), 15);
  EXPECT_FALSE(report.has_goodput_requests_per_s()) << "no objective was given";
  EXPECT_FALSE(report.fell_behind());
}

TEST(ReportTest, PartsOfTtftAddUp) {
  const Report report = MakeReport({.records = {SomeRecord()}, .duration = absl::Seconds(1)}, {});
  const Phases& phases = report.ttft_phases();
  EXPECT_DOUBLE_EQ(phases.late_ms().mean(), 5);
  EXPECT_DOUBLE_EQ(phases.router_queue_ms().mean(), 10);
  EXPECT_DOUBLE_EQ(phases.prefill_queue_ms().mean(), 20);
  EXPECT_DOUBLE_EQ(phases.prefill_ms().mean(), 50);
  EXPECT_DOUBLE_EQ(phases.between_ms().mean(), 12);
  EXPECT_DOUBLE_EQ(phases.outside_ms().mean(), 8);
  EXPECT_DOUBLE_EQ(phases.transfer_not_hidden_ms().mean(), 7);
}

TEST(ReportTest, GoodputNeedsEveryObjective) {
  const auto good = [](const Objectives& objectives) {
    RequestRecord failed = SomeRecord();
    failed.code = grpc::StatusCode::UNAVAILABLE;
    return MakeReport({.records = {SomeRecord(), failed}, .duration = absl::Seconds(4)}, objectives).good_share();
  };
  const auto ms = [](int value) { return absl::Milliseconds(value); };
  EXPECT_EQ(good({.ttft = ms(105), .tpot = ms(30), .itl = ms(40)}), 0.5);
  EXPECT_EQ(good({.ttft = ms(104)}), 0);
  EXPECT_EQ(good({.tpot = ms(29)}), 0);
  EXPECT_EQ(good({.itl = ms(39)}), 0);
}

TEST(ReportTest, SaysThatItFellBehind) {
  RequestRecord late = SomeRecord();
  late.sent = late.due + absl::Milliseconds(50);
  const Report report = MakeReport({.records = {late}, .duration = absl::Seconds(1)}, {});
  EXPECT_TRUE(report.fell_behind());
  std::ostringstream text;
  PrintReport(report, text);
  EXPECT_THAT(text.str(), HasSubstr("fell behind"));
}

TEST(ReportTest, CountsFailuresByCode) {
  RequestRecord full, gone;
  full.code = grpc::StatusCode::RESOURCE_EXHAUSTED;
  full.error = "no room";
  gone.code = grpc::StatusCode::UNAVAILABLE;
  const Report report = MakeReport({.records = {full, gone, full, SomeRecord()}, .duration = absl::Seconds(1)}, {});
  ASSERT_EQ(report.failures_size(), 2);
  EXPECT_EQ(report.failures(0).code(), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(report.failures(0).count(), 2u);
  EXPECT_EQ(report.failures(0).example(), "no room");
  EXPECT_EQ(report.completed(), 1u);
  EXPECT_EQ(report.requests(), 4u);
}

class BenchTest : public AppTest {
 protected:
  Report RunJson(std::vector<std::string> words, int code = 0) {
    words.insert(words.begin(), {"bench", "--json"});
    const Result result = Run(std::move(words));
    EXPECT_EQ(result.code, code) << result.err;
    Report report;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(result.out, &report).ok()) << result.out;
    return report;
  }
};

TEST_F(BenchTest, ClosedLoopKeepsItsConcurrency) {
  const Report report = RunJson({"--concurrency=3", "--requests=20", "--prompt-tokens=5", "--output-tokens=4"});
  EXPECT_EQ(report.completed(), 20u);
  EXPECT_EQ(report.in_flight_max(), 3u);
  EXPECT_DOUBLE_EQ(report.prompt_tokens().mean(), 5);
  EXPECT_DOUBLE_EQ(report.output_tokens().mean(), 4);
  EXPECT_EQ(report.itl_ms().count(), 60u);
  EXPECT_TRUE(LastRequest().ignore_eos());
}

TEST_F(BenchTest, OpenLoopSendsAllAndWritesRecords) {
  const std::string records = ::testing::TempDir() + "/records.jsonl";
  const Report report = RunJson({"--rate=200", "--requests=30", "--text", "--prompt-tokens=3", "--output-tokens=2",
                                 "--execution=local", "--slo-ttft-ms=1e9", "--records=" + records});
  EXPECT_EQ(report.completed(), 30u);
  EXPECT_DOUBLE_EQ(report.good_share(), 1);
  EXPECT_EQ(report.late_ms().count(), 30u);
  EXPECT_EQ(LastRequest().execution(), v1::EXECUTION_LOCAL);
  std::ifstream file(records);
  std::string line;
  int lines = 0;
  for (; std::getline(file, line); ++lines) {
    kvrelay::bench::v1::Record record;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(line, &record).ok()) << line;
    EXPECT_EQ(record.code(), "OK");
    EXPECT_EQ(record.itl_ms_size(), 1);
  }
  EXPECT_EQ(lines, 30);
}

TEST_F(BenchTest, FailuresAreReportedAndTheRestGoesOn) {
  service_.BreakAfter(1, grpc::StatusCode::RESOURCE_EXHAUSTED);
  const Result result = Run({"bench", "--requests=5", "--prompt-tokens=4", "--output-tokens=3"});
  EXPECT_EQ(result.code, 5) << "that of RESOURCE_EXHAUSTED";
  EXPECT_THAT(result.out, HasSubstr("5 requests in"));
  EXPECT_THAT(result.out, HasSubstr("4 completed"));
  EXPECT_THAT(result.out, HasSubstr("1 failed with RESOURCE_EXHAUSTED"));
  EXPECT_THAT(result.out, HasSubstr("of TTFT's"));
}

TEST_F(BenchTest, RefusesContradictions) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"--rate=1", "--concurrency=2"},
                                                                                     {"--rate=-1"},
                                                                                     {"--rate=nan"},
                                                                                     {"--prompt-tokens=0"},
                                                                                     {"--output-sigma=99"},
                                                                                     {"--duration=inf"},
                                                                                     {"--slo-ttft-ms=-5"},
                                                                                     {"--file=/nowhere"}}) {
    std::vector<std::string> all = {"bench"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(Run(all).code, 2) << words[0];
  }
}

}  // namespace
}  // namespace kvrelay::cli::bench
