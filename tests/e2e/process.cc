#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "tests/e2e/cluster.h"

namespace kvrelay::e2e {

bool WaitUntil(const std::function<bool()>& condition) {
  const absl::Duration give_up = Clock::Real()->Now() + kPatience;
  while (!condition()) {
    if (Clock::Real()->Now() >= give_up) return false;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Process>> Process::Start(const std::string& program, std::vector<std::string> arguments,
                                                        const std::string& log_path) {
  const char* binary_dir = std::getenv("KVRELAY_BINARY_DIR");
  const std::string path = absl::StrCat(binary_dir == nullptr ? "." : binary_dir, "/bin/", program);
  arguments.insert(arguments.begin(), program);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  // The test itself may run with SIGINT ignored, as a background job of a script.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, path.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::InternalError(absl::StrCat("starting ", path, ": ", strerror(error)));
  return std::unique_ptr<Process>(new Process(pid, log_path));
}

Process::~Process() {
  if (!Running()) return;
  Signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Process::Signal(int signal) const {
  if (!reaped_) kill(pid_, signal);
}

bool Process::Running() {
  int status = 0;
  if (!reaped_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    reaped_ = true;
    exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  return !reaped_;
}

absl::StatusOr<int> Process::Wait() {
  if (!WaitUntil([this] { return !Running(); })) {
    return absl::DeadlineExceededError(absl::StrCat("process ", pid_, " does not end"));
  }
  return exit_;
}

std::string Process::Log() const {
  std::ostringstream text;
  text << std::ifstream(log_path_).rdbuf();
  return text.str();
}

}  // namespace kvrelay::e2e
