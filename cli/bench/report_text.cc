// The report of a load test for people.
#include <ostream>

#include "absl/strings/str_format.h"
#include "cli/bench/report.h"
#include "cli/table.h"
#include "cli/text.h"

namespace kvrelay::cli::bench {
namespace {

using kvrelay::bench::v1::Distribution;
using kvrelay::bench::v1::Phases;
using kvrelay::bench::v1::Report;

Table DistributionTable(const std::string& title) {
  std::vector<Column> columns = {{title}};
  for (const char* name : {"mean", "p50", "p90", "p95", "p99", "max"}) columns.push_back({name, Align::kRight});
  return Table(std::move(columns));
}

void AddRow(const std::string& name, const Distribution& values, Table* table) {
  std::vector<Cell> row = {{name}};
  for (const double value : {values.mean(), values.p50(), values.p90(), values.p95(), values.p99(), values.max()}) {
    row.push_back({values.count() == 0 ? "-" : absl::StrFormat("%.1f", value)});
  }
  table->AddRow(std::move(row));
}

void PrintTotals(const Report& report, std::ostream& out) {
  out << absl::StrFormat("%u requests in %.1f s, %u completed, at most %u at a time\n", report.requests(),
                         report.duration_s(), report.completed(), report.in_flight_max());
  for (const kvrelay::bench::v1::Failures& failures : report.failures()) {
    out << absl::StrFormat("%u failed with %s: %s\n", failures.count(), failures.code(),
                           SafeForTerminal(failures.example()));
  }
  out << absl::StrFormat("%.3f requests/s, %.1f output tokens/s, %.1f prompt tokens/s\n", report.requests_per_s(),
                         report.output_tokens_per_s(), report.prompt_tokens_per_s());
  if (report.has_goodput_requests_per_s()) {
    out << absl::StrFormat("goodput %.3f requests/s: %.1f %% of all requests met the objectives\n",
                           report.goodput_requests_per_s(), 100 * report.good_share());
  }
}

void PrintPhases(const Report& report, std::ostream& out) {
  const Phases& phases = report.ttft_phases();
  Table table = DistributionTable("TTFT in parts, ms");
  AddRow("sent late", phases.late_ms(), &table);
  AddRow("router queue", phases.router_queue_ms(), &table);
  AddRow("prefill queue", phases.prefill_queue_ms(), &table);
  AddRow("prefill", phases.prefill_ms(), &table);
  AddRow("rest: between processes", phases.between_ms(), &table);
  AddRow("rest: network, client", phases.outside_ms(), &table);
  table.Print(out, /*color=*/false);
  const double sum = phases.late_ms().mean() + phases.router_queue_ms().mean() + phases.prefill_queue_ms().mean() +
                     phases.prefill_ms().mean() + phases.between_ms().mean() + phases.outside_ms().mean();
  out << absl::StrFormat("The means add up to %.1f of TTFT's %.1f ms. ", sum, report.ttft_ms().mean())
      << absl::StrFormat("KV transfer not hidden, which the second token waits for: mean %.1f, p99 %.1f ms.\n",
                         phases.transfer_not_hidden_ms().mean(), phases.transfer_not_hidden_ms().p99());
}

}  // namespace

void PrintReport(const Report& report, std::ostream& out) {
  PrintTotals(report, out);
  out << '\n';
  Table lengths = DistributionTable("tokens");
  AddRow("prompt", report.prompt_tokens(), &lengths);
  AddRow("output", report.output_tokens(), &lengths);
  lengths.Print(out, /*color=*/false);
  out << '\n';
  Table times = DistributionTable("at the client, ms");
  AddRow("TTFT (first token)", report.ttft_ms(), &times);
  AddRow("ITL (each gap)", report.itl_ms(), &times);
  AddRow("TPOT (mean gap)", report.tpot_ms(), &times);
  AddRow("end to end", report.e2e_ms(), &times);
  times.Print(out, /*color=*/false);
  out << '\n';
  PrintPhases(report, out);
  if (report.fell_behind()) {
    out << absl::StrFormat(
        "\nWARNING: this client fell behind: it sent requests up to %.1f ms late (p99 %.1f ms). The load was not the "
        "one asked for.\n",
        report.late_ms().max(), report.late_ms().p99());
  }
}

}  // namespace kvrelay::cli::bench
