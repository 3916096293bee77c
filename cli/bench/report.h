// From records to the report of a run. Pure functions.
#pragma once

#include <iosfwd>
#include <vector>

#include "absl/time/time.h"
#include "cli/bench/request_record.h"
#include "kvrelay/bench/v1/bench.pb.h"

namespace kvrelay::cli::bench {

// What a run brought.
struct RunResult {
  std::vector<RequestRecord> records;
  absl::Duration duration;
  uint32_t in_flight_max = 0;
};

// A load generator that is later than this in one of 100 requests has fallen behind.
inline constexpr absl::Duration kLateAllowed = absl::Milliseconds(20);

kvrelay::bench::v1::Distribution Summarize(std::vector<double> values);

kvrelay::bench::v1::Report MakeReport(const RunResult& result, const Objectives& objectives);

// The line of --records.
kvrelay::bench::v1::Record ToProto(const RequestRecord& record, const Objectives& objectives);

// For people; in report_text.cc.
void PrintReport(const kvrelay::bench::v1::Report& report, std::ostream& out);

}  // namespace kvrelay::cli::bench
