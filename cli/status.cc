// kvrelay status.
#include <ostream>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/worker_text.h"

namespace kvrelay::cli {
namespace {

std::vector<Cell> WorkerRow(const v1::WorkerStatus& worker) {
  const std::string state = worker.ready() ? "ready" : "not ready";
  return {{RoleName(worker.role())},
          {Shown(worker.instance())},
          {SafeForTerminal(worker.address())},
          {state, worker.ready() ? Color::kGreen : Color::kRed},
          {absl::StrCat(worker.active_sessions())},
          {absl::StrCat(worker.queued_sessions())},
          {absl::StrCat(worker.kv_blocks_referenced(), "/", worker.kv_blocks_total())},
          {FormatCount(worker.steps())},
          {FormatMilliseconds(Milliseconds(worker.heartbeat_age()))},
          {Shown(worker.kernel_id())},
          {Shown(worker.numerics_id())},
          {Shown(worker.version())}};
}

}  // namespace

std::string RoleName(v1::WorkerRole role) {
  switch (role) {
    case v1::WORKER_ROLE_PREFILL:
      return "prefill";
    case v1::WORKER_ROLE_DECODE:
      return "decode";
    default:
      return "unknown";
  }
}

std::string Shown(const std::string& text) { return text.empty() ? "-" : SafeForTerminal(text); }

std::string Problem(const v1::WorkerStatus& worker) {
  return absl::StrCat(
      RoleName(worker.role()), " ", SafeForTerminal(worker.address()), ": ",
      worker.problem().empty() ? "not ready, and the router does not say why" : SafeForTerminal(worker.problem()));
}

int RunStatus(const Options& options, Client* client, const Console& console) {
  v1::GetStatusResponse response;
  const CallEnd end = client->Call(&Stub::GetStatus, v1::GetStatusRequest(), &response);
  if (!end.ok()) return ReportEnd(*client, end, console);
  if (options.json) {
    console.out << ToJsonLine(response);
  } else {
    console.out << "router " << Shown(response.instance()) << " at " << client->address() << ", version "
                << Shown(response.version()) << ", " << FormatCount(response.active_requests()) << " active requests\n";
    Table table({{"role"},
                 {"instance"},
                 {"address"},
                 {"state"},
                 {"active", Align::kRight},
                 {"queued", Align::kRight},
                 {"KV blocks used", Align::kRight},
                 {"steps", Align::kRight},
                 {"last sign of life", Align::kRight},
                 {"kernels"},
                 {"numerics"},
                 {"version"}});
    for (const v1::WorkerStatus& worker : response.workers()) table.AddRow(WorkerRow(worker));
    if (response.workers_size() > 0) table.Print(console.out, console.color);
    for (const v1::WorkerStatus& worker : response.workers()) {
      if (!worker.ready()) console.out << Problem(worker) << '\n';
    }
  }
  console.out.flush();
  return console.out.good() ? kExitOk : kExitOther;
}

}  // namespace kvrelay::cli
