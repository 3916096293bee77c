// kvrelay wait: a bar while models load.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/text.h"
#include "cli/worker_text.h"
#include "common/base/clock.h"

namespace kvrelay::cli {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(100);
constexpr int kBarWidth = 20;

struct Readiness {
  bool done = false;
  int ready = 0;
  int total = 0;
  std::vector<std::string> problems;
};

Readiness Judge(const v1::GetStatusResponse& response, bool all) {
  Readiness readiness;
  bool decode_ready = false;
  for (const v1::WorkerStatus& worker : response.workers()) {
    ++readiness.total;
    if (!worker.ready()) {
      readiness.problems.push_back(Problem(worker));
      continue;
    }
    ++readiness.ready;
    decode_ready = decode_ready || worker.role() == v1::WORKER_ROLE_DECODE;
  }
  if (!decode_ready && readiness.problems.empty()) readiness.problems.push_back("no decode worker is configured");
  readiness.done = decode_ready && (!all || readiness.ready == readiness.total);
  return readiness;
}

// One line redrawn in place on a terminal; elsewhere a line whenever the problems change.
class Progress {
 public:
  Progress(const Console& console, bool quiet) : console_(console), quiet_(quiet) {}

  void Show(const Readiness& readiness) {
    if (quiet_) return;
    const std::string problems = absl::StrJoin(readiness.problems, "; ");
    if (console_.err_is_terminal) {
      const int filled = readiness.total == 0 ? 0 : kBarWidth * readiness.ready / readiness.total;
      console_.err << "\r\033[K"
                   << "|/-\\"[spin_++ % 4] << " [" << std::string(filled, '#') << std::string(kBarWidth - filled, '.')
                   << "] " << readiness.ready << "/" << readiness.total << " workers ready  "
                   << SafeForTerminal(problems.substr(0, 120)) << std::flush;
    } else if (problems != shown_) {
      console_.err << "waiting: " << problems << std::endl;
      shown_ = problems;
    }
  }

  void Clear() {
    if (!quiet_ && console_.err_is_terminal) console_.err << "\r\033[K" << std::flush;
  }

 private:
  const Console& console_;
  const bool quiet_;
  unsigned spin_ = 0;
  std::string shown_;
};

}  // namespace

int RunWait(const Options& options, Client* client, const Console& console) {
  const Clock* clock = Clock::Real();
  const absl::Duration give_up = clock->Now() + absl::Seconds(options.timeout_s);
  Progress progress(console, options.quiet);
  while (true) {
    v1::GetStatusResponse response;
    const CallEnd end = client->Call(&Stub::GetStatus, v1::GetStatusRequest(), &response);
    // Waiting does not make a token valid.
    if (end.interrupted || end.status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
      progress.Clear();
      return ReportEnd(*client, end, console);
    }
    Readiness readiness;
    if (end.ok()) {
      readiness = Judge(response, options.all);
    } else {
      readiness.problems.push_back(absl::StrCat("router ", client->address(), ": ", CodeName(end.status.error_code())));
    }
    if (readiness.done) {
      progress.Clear();
      return kExitOk;
    }
    if (clock->Now() >= give_up) {
      progress.Clear();
      console.err << "kvrelay: not ready after " << options.timeout_s << " s\n";
      for (const std::string& problem : readiness.problems) console.err << "  " << problem << '\n';
      if (!end.ok()) console.err << "  " << SafeForTerminal(end.status.error_message()) << '\n';
      console.err << "  Look at the logs of these processes ('./dev up' writes .run/*.log)." << std::endl;
      return kExitOther;
    }
    progress.Show(readiness);
    absl::SleepFor(std::min(kPollInterval, give_up - clock->Now()));
  }
}

}  // namespace kvrelay::cli
