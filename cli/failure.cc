#include "cli/failure.h"

#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/exit_code.h"
#include "cli/text.h"

namespace kvrelay::cli {
namespace {

std::string Hint(const Client& client, const CallEnd& end) {
  switch (end.status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return "Correct the value named above; the options and their ranges are in --help.";
    case grpc::StatusCode::UNAUTHENTICATED:
      return "Give the file that holds your token with --token-file; whoever runs the router hands them out.";
    case grpc::StatusCode::NOT_FOUND:
      return "'kvrelay model' shows the model that is served; leave --model out to use it.";
    case grpc::StatusCode::UNAVAILABLE:
      if (end.tokens > 0) return "Nothing was lost but the rest: send the request again, with the same --seed.";
      return absl::StrCat("Is the router running at ", absl::StrJoin(client.addresses(), " or "), "? ",
                          client.tls() ? "Does its certificate end at a CA in --tls-ca, and name this host? "
                                       : "If it has TLS, give --tls-ca. ",
                          "'kvrelay status' shows its workers; './dev up' starts a service here.");
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return "The service is full. Try again later, or ask for fewer tokens.";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "Give more time with --deadline-ms, or ask for fewer tokens.";
    case grpc::StatusCode::FAILED_PRECONDITION:
      return "All workers of one service need the same model file and numerics: see 'kvrelay status'.";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "The server does not know this call: is this address a kvrelay router of this version?";
    default:
      return "This is an error of the service: look at its logs, and at 'kvrelay status'.";
  }
}

}  // namespace

int ReportEnd(const Client& client, const CallEnd& end, const Console& console) {
  if (end.output_closed) return kExitOther;  // nobody is left to read; say nothing, as other programs in a pipe
  if (end.interrupted) {
    console.err << "\nkvrelay: cancelled";
    if (end.tokens > 0) console.err << " after " << FormatCount(end.tokens) << " tokens";
    console.err << std::endl;
    return kExitInterrupted;
  }
  if (end.status.ok()) return kExitOk;
  if (end.tokens > 0) console.err << '\n';
  console.err << "kvrelay: " << CodeName(end.status.error_code());
  if (end.tokens > 0) console.err << " after " << FormatCount(end.tokens) << " tokens had arrived";
  console.err << ": " << SafeForTerminal(end.status.error_message()) << "\n  " << Hint(client, end) << std::endl;
  return ExitCode(end.status.error_code());
}

int ReportUsage(const std::string& what, const std::string& hint, const Console& console) {
  console.err << "kvrelay: " << what << "\n  " << hint << std::endl;
  return kExitUsage;
}

}  // namespace kvrelay::cli
