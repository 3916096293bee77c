#include "cli/app.h"

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connection.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/options.h"
#include "common/base/check.h"

namespace kvrelay::cli {
namespace {

// `wait` asks again and again; one answer that does not come must not hold it up.
constexpr int64_t kWaitCallDeadlineMs = 2000;

int Dispatch(const Options& options, Client* client, const Console& console) {
  switch (options.command) {
    case Command::kGenerate:
    case Command::kRun:
      return RunGenerate(options, client, console);
    case Command::kChat:
      return RunChat(options, client, console);
    case Command::kTrace:
      return RunTrace(options, client, console);
    case Command::kTokenize:
      return RunTokenize(options, client, console);
    case Command::kDetokenize:
      return RunDetokenize(options, client, console);
    case Command::kModel:
      return RunModel(options, client, console);
    case Command::kStatus:
      return RunStatus(options, client, console);
    case Command::kWait:
      return RunWait(options, client, console);
    case Command::kBench:
      return RunBench(options, client, console);
  }
  KV_CHECK(false, "every command is dispatched");
}

}  // namespace

int RunApp(int argc, const char* const* argv, const Console& console, Interrupt* interrupt) {
  Options options;
  if (const std::optional<int> exit_code = ParseOptions(argc, argv, console, &options)) return *exit_code;
  const absl::StatusOr<std::vector<std::string>> addresses = ResolveAddresses(options.addresses);
  if (!addresses.ok()) {
    return ReportUsage(std::string(addresses.status().message()),
                       "Give --address HOST:PORT, set KVRELAY_ADDRESS, or start a service here with './dev up'.",
                       console);
  }
  if (options.command == Command::kWait) options.deadline_ms = kWaitCallDeadlineMs;
  absl::StatusOr<Connection> connection = ResolveConnection(*addresses, options);
  if (!connection.ok()) {
    return ReportUsage(std::string(connection.status().message()),
                       "See --tls-ca, --tls-cert, --tls-key and --token-file in --help.", console);
  }
  Client client(*std::move(connection), options.deadline_ms, interrupt);
  return Dispatch(options, &client, console);
}

}  // namespace kvrelay::cli
