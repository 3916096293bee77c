// The life of a worker process: load the model, start engine and server, say that it is ready, wait for a signal,
// drain, stop.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/worker/context.h"
#include "common/worker/options.h"

namespace kvrelay::worker {

// A service of one role and its full name.
struct RoleService {
  std::string name;
  std::unique_ptr<grpc::Service> service;
};
// Makes the services of a role; the context outlives them. Several may share state.
using MakeServices = std::function<std::vector<RoleService>(const WorkerContext* context)>;

struct Role {
  std::string name;                 // "prefill" or "decode"
  rpc::PeerRole peer_role;          // the same for its peers
  bool receives_kv = false;         // whether it advertises an address for ReceiveKv
  int max_receive_bytes = 4 << 20;  // largest message it takes
  MakeServices make_services;
};

// Runs until SIGTERM or SIGINT. Returns the exit code: 0 after an orderly end, 1 if it could not start, with the cause
// in the log.
int RunWorker(const WorkerOptions& options, const Role& role);

}  // namespace kvrelay::worker
