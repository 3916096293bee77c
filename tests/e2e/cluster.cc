#include "tests/e2e/cluster.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"

namespace kvrelay::e2e {

std::string ModelPath() {
  const char* path = std::getenv("KVRELAY_MODEL");
  if (path != nullptr && *path != '\0') return path;
  ADD_FAILURE() << "KVRELAY_MODEL is not set: './dev test' sets it; by hand, set it to the GGUF file of the model";
  return "";
}

Cluster::Cluster(Links links) : links_(links), credentials_(grpc::InsecureChannelCredentials()) {
  std::string pattern = absl::StrCat(::testing::TempDir(), "/kvrelay-e2e-XXXXXX");
  const char* made = mkdtemp(pattern.data());
  EXPECT_NE(made, nullptr) << "no directory like " << pattern;
  directory_ = pattern;
}

Cluster::~Cluster() {
  const absl::Status stopped = Stop();
  EXPECT_TRUE(stopped.ok()) << stopped;
  if (::testing::Test::HasFailure()) GTEST_LOG_(INFO) << Logs();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

absl::Status Cluster::StartMember(const std::string& role, const std::string& name, std::vector<std::string> arguments,
                                  const std::string& listen) {
  const std::string port_file = absl::StrCat(directory_, "/", name, ".port");
  std::filesystem::remove(port_file);
  std::vector<std::string> all = {"--listen", listen, "--port-file", port_file, "--instance", name};
  all.insert(all.end(), arguments.begin(), arguments.end());
  KV_ASSIGN_OR_RETURN(std::unique_ptr<Process> process,
                      Process::Start("kvrelay-" + role, all, absl::StrCat(directory_, "/", name, ".log")));
  Member& member = members_[name];
  member.process = std::move(process);
  std::string address;
  WaitUntil([&] {
    std::ifstream(port_file) >> address;
    return !address.empty() || !member.process->Running();
  });
  if (address.empty()) return absl::UnavailableError(absl::StrCat(name, " does not listen: ", member.process->Log()));
  if (!member.address.empty()) return absl::OkStatus();  // restarted: all is as it was, and others may read it
  member.role = role;
  member.address = address;
  member.arguments = std::move(arguments);
  return absl::OkStatus();
}

absl::Status Cluster::Restart(const std::string& name, int signal) {
  Member& member = members_.at(name);
  if (member.process->Running()) member.process->Signal(signal);
  KV_RETURN_IF_ERROR(member.process->Wait().status());
  return StartMember(member.role, name, member.arguments, std::string(member.address));
}

absl::Status Cluster::StartWorker(const std::string& role, const std::string& name, std::vector<std::string> extra) {
  std::vector<std::string> arguments;
  const std::pair<std::string, std::string> usual[] = {
      {"--threads", "1"}, {"--kv-pool-mib", "256"}, {"--model", ModelPath()}};
  for (const auto& [flag, value] : usual) {
    if (std::find(extra.begin(), extra.end(), flag) == extra.end()) arguments.insert(arguments.end(), {flag, value});
  }
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  arguments.insert(arguments.end(), flags_[role].begin(), flags_[role].end());
  if (links_ == Links::kDirect) return StartMember(role, name, arguments);
  KV_ASSIGN_OR_RETURN(std::unique_ptr<Proxy> link, Proxy::Start());
  KV_ASSIGN_OR_RETURN(std::unique_ptr<Proxy> kv_link, Proxy::Start());
  if (role == "decode") arguments.insert(arguments.end(), {"--advertise", kv_link->address()});
  KV_RETURN_IF_ERROR(StartMember(role, name, arguments));
  Member& member = members_.at(name);
  for (Proxy* proxy : {link.get(), kv_link.get()}) proxy->SetTarget(member.address);
  member.link = std::move(link);
  member.kv_link = std::move(kv_link);
  return absl::OkStatus();
}

absl::Status Cluster::StartRouter(const std::string& name) {
  std::vector<std::string> arguments = {"--model", ModelPath()};
  arguments.insert(arguments.end(), flags_["router"].begin(), flags_["router"].end());
  for (const auto& [worker, member] : members_) {
    if (member.role == "router") continue;
    arguments.insert(arguments.end(), {"--" + member.role, member.link ? member.link->address() : member.address});
  }
  KV_RETURN_IF_ERROR(StartMember("router", name, arguments));
  router_ = name;
  stub_ = v1::GenerationService::NewStub(grpc::CreateChannel(address(), credentials_));
  return absl::OkStatus();
}

absl::Status Cluster::WaitReady() {
  if (WaitForWorkers([](const v1::WorkerStatus& worker) { return worker.ready(); })) return absl::OkStatus();
  return absl::UnavailableError("not ready: " + Describe());
}

std::string Cluster::Describe() {
  const absl::StatusOr<v1::GetStatusResponse> status = Status();
  return status.ok() ? status->ShortDebugString() : status.status().ToString();
}

absl::Status Cluster::StartAll(int prefill, int decode) {
  for (int i = 1; i <= prefill; ++i) KV_RETURN_IF_ERROR(StartWorker("prefill", absl::StrCat("prefill-", i)));
  for (int i = 1; i <= decode; ++i) KV_RETURN_IF_ERROR(StartWorker("decode", absl::StrCat("decode-", i)));
  KV_RETURN_IF_ERROR(StartRouter());
  return WaitReady();
}

absl::Status Cluster::Stop() {
  std::string complaints;
  for (auto& [name, member] : members_) member.process->Signal(SIGTERM);
  for (auto& [name, member] : members_) {
    const absl::StatusOr<int> exit = member.process->Wait();
    if (!exit.ok()) {
      absl::StrAppend(&complaints, name, ": ", exit.status().ToString(), "; ");
      member.process->Signal(SIGKILL);
    } else if (*exit != 0 && *exit != -SIGKILL) {  // killed: by a test that meant it
      absl::StrAppend(&complaints, name, " ended with ", *exit, "; ");
    }
  }
  // Whatever runs with a file of our directory on its command line was started for this cluster, by us or by one of
  // ours.
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    // Others come and go meanwhile: one that ends here reads as nothing. An iterator over the buffer would throw.
    std::ostringstream line;
    line << std::ifstream(entry.path() / "cmdline").rdbuf();
    if (absl::StrContains(line.str(), directory_))
      absl::StrAppend(&complaints, entry.path().string(), " is still there; ");
  }
  return complaints.empty() ? absl::OkStatus() : absl::InternalError(complaints);
}

Process& Cluster::process(const std::string& name) { return *members_.at(name).process; }

const std::string& Cluster::address(const std::string& name) const { return members_.at(name).address; }

std::vector<std::string> Cluster::names(const std::string& role) const {
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) {
    if (member.role == role) names.push_back(name);
  }
  return names;
}

namespace {

absl::StatusOr<v1::GetStatusResponse> AskStatus(v1::GenerationService::Stub& stub, absl::Duration patience) {
  grpc::ClientContext context;
  context.set_deadline(gpr_time_from_millis(absl::ToInt64Milliseconds(patience), GPR_TIMESPAN));
  v1::GetStatusResponse response;
  const grpc::Status status = stub.GetStatus(&context, v1::GetStatusRequest(), &response);
  if (!status.ok()) return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  return response;
}

}  // namespace

absl::StatusOr<v1::GetStatusResponse> Cluster::Status() { return AskStatus(*stub_, absl::Seconds(10)); }

absl::StatusOr<v1::GetStatusResponse> Cluster::StatusOf(const std::string& router, absl::Duration patience) {
  const auto stub = v1::GenerationService::NewStub(grpc::CreateChannel(address(router), credentials_));
  return AskStatus(*stub, patience);
}

bool Cluster::WaitForWorkers(const std::function<bool(const v1::WorkerStatus&)>& condition) {
  const auto workers = std::count_if(members_.begin(), members_.end(),
                                     [](const auto& member) { return member.second.role != "router"; });
  return WaitUntil([&] {
    const absl::StatusOr<v1::GetStatusResponse> status = Status();
    return status.ok() && status->workers_size() == workers &&
           std::all_of(status->workers().begin(), status->workers().end(), condition);
  });
}

bool Cluster::WaitUntilIdle() {
  absl::SleepFor(absl::Milliseconds(1200));
  return WaitForWorkers([](const v1::WorkerStatus& worker) {
    return worker.kv_blocks_referenced() == 0 && worker.active_sessions() == 0 && worker.queued_sessions() == 0;
  });
}

std::string Cluster::Logs() const {
  std::string logs;
  for (const auto& [name, member] : members_) absl::StrAppend(&logs, "\n--- ", name, "\n", member.process->Log());
  return logs;
}

}  // namespace kvrelay::e2e
