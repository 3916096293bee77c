// What only the real program as a process shows: Ctrl-C, closed pipes, the environment.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/cli/fake_service.h"

namespace kvrelay::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string ProgramPath() {
  const char* binary_dir = std::getenv("KVRELAY_BINARY_DIR");
  return absl::StrCat(binary_dir == nullptr ? "." : binary_dir, "/bin/kvrelay");
}

enum class Output { kPipe, kTerminal };

// One kvrelay process with pipes on its standard streams, or a terminal on its two outputs. Killed and reaped at the
// end.
class Process {
 public:
  // `directory`: where it runs; `environment`: all of it.
  Process(std::vector<std::string> words, std::string directory = ".", std::vector<std::string> environment = {},
          Output output = Output::kPipe) {
    int in[2], out[2], err[2];
    EXPECT_EQ(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    if (output == Output::kTerminal) UseTerminal(out, err);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    // A test run in the background may have SIGINT ignored; the program is to start as from a shell.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t defaults, none;
    sigemptyset(&defaults);
    sigemptyset(&none);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    const std::string path = std::filesystem::absolute(ProgramPath());
    words.insert(words.begin(), "kvrelay");
    EXPECT_EQ(
        posix_spawn(&pid_, path.c_str(), &actions, &attributes, Pointers(words).data(), Pointers(environment).data()),
        0)
        << path;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    in_ = in[1];
    out_ = out[0];
    err_ = err[0];
  }

  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    for (const int fd : {in_, out_, err_}) {
      if (fd >= 0) close(fd);
    }
  }

  void Write(const std::string& text) { EXPECT_EQ(write(in_, text.data(), text.size()), ssize_t(text.size())); }
  void CloseInput() { Close(&in_); }
  void CloseOutput() { Close(&out_); }
  void Interrupt() { EXPECT_EQ(kill(pid_, SIGINT), 0); }

  // Reads from standard output until `text` has come, or it ends.
  std::string ReadUntil(const std::string& text) {
    std::string read;
    char c;
    while (read.find(text) == std::string::npos && ::read(out_, &c, 1) == 1) read += c;
    return read;
  }
  std::string ReadError() {
    std::string text;
    char c;
    while (::read(err_, &c, 1) == 1) text += c;
    return text;
  }

  // Waits for the end; the exit code, or -signal.
  int Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  static std::vector<char*> Pointers(std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    return pointers;
  }
  // Puts a new terminal in the place of both pipes.
  static void UseTerminal(int (&out)[2], int (&err)[2]) {
    for (const int fd : {out[0], out[1], err[1]}) close(fd);
    EXPECT_EQ(openpty(&out[0], &out[1], nullptr, nullptr, nullptr), 0);
    err[1] = fcntl(out[1], F_DUPFD_CLOEXEC, 0);
    for (const int fd : out) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  static void Close(int* fd) {
    close(*fd);
    *fd = -1;
  }

  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
};

class ProcessTest : public ::testing::Test {
 protected:
  std::string Address() const { return "--address=" + service_.address(); }
  void ExpectCancelled() const {
    while (service_.cancelled() == 0) absl::SleepFor(absl::Milliseconds(5));  // ctest's time limit ends a failure
  }

  FakeService service_;
};

TEST_F(ProcessTest, CtrlCCancelsTheCallAndEndsWith130) {
  Process process({"generate", "hang", Address()});
  EXPECT_EQ(process.ReadUntil("AB"), "AB");
  process.Interrupt();
  EXPECT_EQ(process.Wait(), 130);
  EXPECT_THAT(process.ReadError(), HasSubstr("cancelled after 2 tokens"));
  ExpectCancelled();
}

TEST_F(ProcessTest, CtrlCWithoutACallEndsTheProgram) {
  Process process({"chat", Address()});
  process.Write("one\n");
  EXPECT_EQ(process.ReadUntil("\n"), "ABCD\n");
  absl::SleepFor(absl::Milliseconds(200));  // lets the call end; if it has not, the signal cancels what is left of it
  process.Interrupt();
  EXPECT_EQ(process.Wait(), 130);
}

TEST_F(ProcessTest, CtrlCWhileAStreamWaitsForARouterIsACancel) {
  for (int i = 0; i < 20; ++i) service_.BreakAfter(i == 0 ? 3 : 0);
  Process process({"generate", "abc", Address()});
  EXPECT_EQ(process.ReadUntil("AB"), "AB");
  absl::SleepFor(absl::Milliseconds(300));
  process.Interrupt();
  EXPECT_EQ(process.Wait(), 130);
  EXPECT_THAT(process.ReadError(), HasSubstr("cancelled after 2 tokens"));
}

TEST_F(ProcessTest, CtrlCInChatCancelsOnlyTheAnswer) {
  Process process({"chat", Address()});
  process.Write("hang\n");
  EXPECT_EQ(process.ReadUntil("AB"), "AB");
  process.Interrupt();
  process.Write("go on\n");
  EXPECT_EQ(process.ReadUntil("ABCD"), "\nABCD");
  process.CloseInput();
  EXPECT_EQ(process.Wait(), 0);
  const v1::Chat chat = service_.requests().back().chat();
  ASSERT_EQ(chat.messages_size(), 3);
  EXPECT_EQ(chat.messages(1).content(), "AB") << "the part that was seen stays";
}

TEST_F(ProcessTest, ClosedOutputCancelsTheCall) {
  Process process({"generate", "flood", Address()});
  EXPECT_EQ(process.ReadUntil("ABC"), "ABC");
  process.CloseOutput();
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_EQ(process.ReadError(), "") << "as other programs in a pipe";
  ExpectCancelled();
}

TEST_F(ProcessTest, ClosedOutputOfAUnaryCall) {
  Process process({"tokenize", Address()});
  process.CloseOutput();
  process.Write("abc");
  process.CloseInput();
  EXPECT_EQ(process.Wait(), 1);
}

TEST_F(ProcessTest, ReadsThePromptFromAPipe) {
  Process process({"generate", "--quiet", Address()});
  process.Write("abc");
  process.CloseInput();
  EXPECT_EQ(process.ReadUntil("\n"), "ABCD\n");
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_EQ(service_.requests().back().text(), "abc");
}

// Runs on a terminal and returns all that it showed.
std::string OnTerminal(std::vector<std::string> words, std::vector<std::string> environment) {
  Process process(std::move(words), ".", std::move(environment), Output::kTerminal);
  const std::string shown = process.ReadUntil("never to be seen");
  process.Wait();
  return shown;
}

TEST_F(ProcessTest, ColoursOnATerminalUnlessForbidden) {
  const std::vector<std::string> words = {"trace", "--execution=no-cache", "abc", Address()};
  const std::string kOrange = "\033[38;5;208m0..2\033[0m";
  const std::string kPurple = "\033[38;5;135m0..2\033[0m";
  EXPECT_THAT(OnTerminal(words, {"TERM=xterm"}), AllOf(HasSubstr(kOrange), HasSubstr(kPurple)));
  EXPECT_THAT(OnTerminal(words, {"TERM=xterm", "NO_COLOR=1"}), Not(HasSubstr("\033")));
  EXPECT_THAT(OnTerminal(words, {"TERM=dumb"}), Not(HasSubstr("\033")));
}

TEST_F(ProcessTest, GeneratedTextCannotDriveTheTerminal) {
  EXPECT_THAT(OnTerminal({"detokenize", "27", "91", "72", Address()}, {}), StartsWith("[H"));
}

TEST_F(ProcessTest, WaitShowsABarOnATerminal) {
  v1::GetStatusResponse status;
  v1::WorkerStatus* worker = status.add_workers();
  worker->set_role(v1::WORKER_ROLE_DECODE);
  worker->set_address("host:7");
  worker->set_problem("loading");
  service_.SetStatus(status);
  const std::string shown = OnTerminal({"wait", "--timeout-s=1", Address()}, {});
  EXPECT_THAT(shown, HasSubstr("| [....................] 0/1 workers ready  decode host:7: loading"));
  EXPECT_THAT(shown, HasSubstr("\r\033[K/ [")) << "redrawn in place";
  EXPECT_THAT(shown, HasSubstr("not ready after 1 s"));
}

TEST_F(ProcessTest, AddressFromTheEnvironmentOrTheEndpointsFile) {
  const std::filesystem::path directory = std::filesystem::path(::testing::TempDir()) / absl::StrCat("cli", getpid());
  std::filesystem::create_directories(directory / ".run");
  std::ofstream(directory / ".run/endpoints.json") << R"({"grpc": ")" << service_.address() << R"(", "http": null})";
  Process from_file({"detokenize", "72"}, directory);
  EXPECT_EQ(from_file.ReadUntil("\n"), "H\n");
  EXPECT_EQ(from_file.Wait(), 0);

  std::ofstream(directory / ".run/endpoints.json")
      << R"({"grpc": "127.0.0.1:1", "processes": [{"role": "decode", "address": "127.0.0.1:2"},)"
      << R"({"role": "router", "address": ")" << service_.address() << R"("}]})";
  Process second_router({"detokenize", "72"}, directory);
  EXPECT_EQ(second_router.ReadUntil("\n"), "H\n") << "of a service with two routers, the first dead";
  EXPECT_EQ(second_router.Wait(), 0);

  Process environment_wins({"detokenize", "72"}, directory, {"KVRELAY_ADDRESS=127.0.0.1:1"});
  EXPECT_EQ(environment_wins.Wait(), 4);
  Process option_wins({"detokenize", "72", Address()}, directory, {"KVRELAY_ADDRESS=127.0.0.1:1"});
  EXPECT_EQ(option_wins.Wait(), 0);

  std::ofstream(directory / ".run/endpoints.json") << "{\"grpc\": 5";
  Process damaged({"detokenize", "72"}, directory);
  EXPECT_EQ(damaged.Wait(), 2);
  EXPECT_THAT(damaged.ReadError(), HasSubstr(".run/endpoints.json is not a JSON object"));
  std::filesystem::remove_all(directory);
  Process nothing({"detokenize", "72"}, "/");
  EXPECT_EQ(nothing.Wait(), 2);
  EXPECT_THAT(nothing.ReadError(), HasSubstr("no router address"));
}

}  // namespace
}  // namespace kvrelay::cli
