// Real kvrelay processes for a test: starts them on free loopback ports, waits until the router sees them ready, and
// ends them. Programs come from ${KVRELAY_BINARY_DIR}/bin, the model from $KVRELAY_MODEL.
//
// Not thread-safe, but for this: once all members are started, different threads may signal, restart and ask after
// different members. The stubs and links that it hands out are thread-safe.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/security/credentials.h"
#include "kvrelay/v1/generation.grpc.pb.h"
#include "tests/e2e/proxy.h"

namespace kvrelay::e2e {

// How long anything here is waited for: long enough for a machine that does ten other things.
inline constexpr absl::Duration kPatience = absl::Seconds(120);

// The model file of the tests. Fails the test and returns "" if $KVRELAY_MODEL is not set.
std::string ModelPath();

// Asks `condition` again and again until it is true; false if kPatience ends before.
bool WaitUntil(const std::function<bool()>& condition);

// One child process, its output in a file. Killed and reaped at the end at the latest.
class Process {
 public:
  // Starts ${KVRELAY_BINARY_DIR}/bin/`program` with standard output and error in `log_path`.
  static absl::StatusOr<std::unique_ptr<Process>> Start(const std::string& program, std::vector<std::string> arguments,
                                                        const std::string& log_path);
  ~Process();

  void Signal(int signal) const;
  bool Running();
  // Waits up to kPatience for the end. The exit code, minus the number of the signal that ended it, or
  // DEADLINE_EXCEEDED.
  absl::StatusOr<int> Wait();
  // Everything it has written.
  std::string Log() const;
  pid_t pid() const { return pid_; }

 private:
  Process(pid_t pid, std::string log_path) : pid_(pid), log_path_(std::move(log_path)) {}

  const pid_t pid_;
  const std::string log_path_;
  bool reaped_ = false;
  int exit_ = 0;
};

class Cluster {
 public:
  enum class Links { kDirect, kProxies };
  // With kProxies routers reach every worker through link(worker), and prefill workers a decode worker's KV service
  // through kv_link(worker).
  explicit Cluster(Links links = Links::kDirect);
  // Ends what still runs as Stop() does.
  ~Cluster();

  // Flags for every process of that role started from now on, beside the usual ones.
  void SetFlags(const std::string& role, std::vector<std::string> flags) { flags_[role] = std::move(flags); }
  // How stub() and StatusOf() connect to routers started from now on. Plaintext by default.
  void SetCredentials(std::shared_ptr<grpc::ChannelCredentials> credentials) { credentials_ = std::move(credentials); }

  // Starts one process that listens on a free port, and waits until it says which. The name, for example "decode-1", is
  // its instance. `extra` arguments win over the usual ones.
  absl::Status StartWorker(const std::string& role, const std::string& name, std::vector<std::string> extra = {});
  // Ends a process, if it still runs, with `signal` and starts it again as it was, at the same address.
  absl::Status Restart(const std::string& name, int signal = SIGKILL);
  // Starts a router over all workers started so far, dead ones included.
  absl::Status StartRouter(const std::string& name = "router-1");
  // Waits until the router reports every worker as ready.
  absl::Status WaitReady();
  // The usual service: `prefill` and `decode` workers and one router, ready.
  absl::Status StartAll(int prefill, int decode);

  // Ends every process with SIGTERM. An error names the processes that did not end well (exit code 0) within kPatience,
  // or processes of this cluster that are still there, which are killed.
  absl::Status Stop();

  // REQUIRES: a process of that name was started.
  Process& process(const std::string& name);
  const std::string& address(const std::string& name) const;
  // REQUIRES: made with Links::kProxies; a worker of that name, for kv_link a decode worker, was started.
  Proxy& link(const std::string& name) { return *members_.at(name).link; }
  Proxy& kv_link(const std::string& name) { return *members_.at(name).kv_link; }
  // Address and stub of the router.
  const std::string& address() const { return address(router_); }
  v1::GenerationService::Stub& stub() { return *stub_; }

  // Names of all members of that role.
  std::vector<std::string> names(const std::string& role) const;

  absl::StatusOr<v1::GetStatusResponse> Status();
  // As one of several routers reports it, within `patience`.
  absl::StatusOr<v1::GetStatusResponse> StatusOf(const std::string& router, absl::Duration patience);
  // The same for messages of failed tests.
  std::string Describe();
  // Waits until `condition` holds for every worker, as the router reports it.
  bool WaitForWorkers(const std::function<bool(const v1::WorkerStatus&)>& condition);
  // Waits until no worker has sessions or referenced blocks. Reports are as old as a heartbeat (500 ms), so this first
  // lets two go by.
  bool WaitUntilIdle();

  // The logs of all processes, for messages of failed tests.
  std::string Logs() const;
  const std::string& directory() const { return directory_; }

 private:
  struct Member {
    std::unique_ptr<Process> process;
    std::string role;
    std::string address;
    std::vector<std::string> arguments;    // without the address
    std::unique_ptr<Proxy> link, kv_link;  // null without proxies
  };

  absl::Status StartMember(const std::string& role, const std::string& name, std::vector<std::string> arguments,
                           const std::string& listen = "127.0.0.1:0");

  const Links links_;
  std::string directory_;
  std::map<std::string, Member> members_;
  std::map<std::string, std::vector<std::string>> flags_;  // by role
  std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::string router_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

}  // namespace kvrelay::e2e
