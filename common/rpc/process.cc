#include "common/rpc/process.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace kvrelay::rpc {
namespace {

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  // A handler rather than the default action: process 1 of a container has no default actions.
  struct sigaction action = {};
  action.sa_handler = [](int number) { _exit(128 + number); };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  // A peer that hangs up is an error of one call, not of the process.
  signal(SIGPIPE, SIG_IGN);
}

void StopSignals::Block() {
  const sigset_t set = StopSet();
  KV_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0, "the signal set is valid");
}

int StopSignals::Wait() {
  const sigset_t set = StopSet();
  int number = 0;
  KV_CHECK(sigwait(&set, &number) == 0, "the signal set is valid");
  KV_CHECK(pthread_sigmask(SIG_UNBLOCK, &set, nullptr) == 0, "the signal set is valid");
  return number;
}

void RaiseFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // a lower limit than could be is no reason not to start
}

absl::Status WritePortFile(const std::string& path, const std::string& address) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  std::ofstream file(temporary);
  file << address << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string cause = std::strerror(errno);
    std::remove(temporary.c_str());
    return absl::FailedPreconditionError(absl::StrCat("cannot write the port file ", path, ": ", cause));
  }
  return absl::OkStatus();
}

}  // namespace kvrelay::rpc
