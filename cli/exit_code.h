// The program's exit codes.
#pragma once

#include "grpcpp/support/status.h"

namespace kvrelay::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitOther = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotFound = 3;
inline constexpr int kExitUnavailable = 4;
inline constexpr int kExitExhausted = 5;
inline constexpr int kExitDeadline = 6;
inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT, as shells say it

int ExitCode(grpc::StatusCode code);

// "INVALID_ARGUMENT" and so on; "an undefined status code" for a number that gRPC does not define.
const char* CodeName(grpc::StatusCode code);

// The table of codes for --help.
inline constexpr char kExitCodeHelp[] =
    "Exit codes:\n"
    "  0    success\n"
    "  1    any other error; standard output closed; 'wait' timed out; 'trace --compare' found unequal tokens\n"
    "  2    wrong usage, or the service answered INVALID_ARGUMENT\n"
    "  3    NOT_FOUND, for example a model that is not served\n"
    "  4    UNAVAILABLE, or the router cannot be reached\n"
    "  5    RESOURCE_EXHAUSTED\n"
    "  6    DEADLINE_EXCEEDED\n"
    "  130  cancelled by Ctrl-C";

}  // namespace kvrelay::cli
