// A whole router in this process, to be asked over real gRPC.
#pragma once

#include <grpcpp/client_context.h>

#include <memory>
#include <string>
#include <vector>

#include "common/rpc/server.h"
#include "common/rpc/status_mapping.h"
#include "kvrelay/v1/generation.grpc.pb.h"
#include "router/generation_service.h"
#include "router/grpc_clients.h"
#include "tests/router/fake_model.h"
#include "tests/router/fake_worker_server.h"

namespace kvrelay::router {

// A router, with a stub to talk to it.
class Router {
 public:
  Router(const std::vector<const FakeWorkerServer*>& prefill, const std::vector<const FakeWorkerServer*>& decode,
         uint32_t max_active = 64, const ClientTokens* tokens = nullptr, const QuotaLimits& quotas = {})
      : registry(Options(prefill, decode), &channels, Clock::Real()),
        decode_client(NewGrpcDecodeClient(&channels)),
        prefill_client(NewGrpcPrefillClient(&channels)),
        service(NewGenerationService({.model = &model,
                                      .clock = Clock::Real(),
                                      .registry = &registry,
                                      .admission = &admission,
                                      .memory = &memory,
                                      .decode_client = decode_client.get(),
                                      .prefill_client = prefill_client.get(),
                                      .metrics = &request_metrics,
                                      .recent = &recent},
                                     {.instance = "r1", .max_active = max_active, .tokens = tokens, .quotas = quotas})),
        server(*rpc::Server::Start({.listen = "127.0.0.1:0"},
                                   {{v1::GenerationService::service_full_name(), service->service()}})),
        stub(v1::GenerationService::NewStub(rpc::NewChannel(server->address()))) {}

  bool WaitReady(size_t workers) {
    return Eventually([&] {
      size_t ready = 0;
      for (const Worker& worker : registry.Snapshot()) ready += worker.ready ? 1 : 0;
      return ready == workers;
    });
  }

  FakeModel model;
  WorkerChannels channels;
  WorkerRegistry registry;
  AdmissionQueue admission{{}};
  PlacementMemory memory;
  observability::Metrics metrics;
  RequestMetrics request_metrics{&metrics};
  RecentRequests recent;
  std::unique_ptr<DecodeClient> decode_client;
  std::unique_ptr<PrefillClient> prefill_client;
  std::unique_ptr<GenerationService> service;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<v1::GenerationService::Stub> stub;

 private:
  static RegistryOptions Options(const std::vector<const FakeWorkerServer*>& prefill,
                                 const std::vector<const FakeWorkerServer*>& decode) {
    RegistryOptions options;
    options.fingerprint = kFakeFingerprint;
    for (const auto* w : prefill) options.targets.push_back(*ParseTarget(v1::WORKER_ROLE_PREFILL, w->address()));
    for (const auto* w : decode) options.targets.push_back(*ParseTarget(v1::WORKER_ROLE_DECODE, w->address()));
    return options;
  }
};

struct Answer {
  std::vector<v1::GenerateResponse> responses;
  std::string text;
  absl::Status status;
};

// With `token` as the call's bearer token, unless it is empty.
inline Answer Generate(v1::GenerationService::Stub& stub, const v1::GenerateRequest& request,
                       const std::string& token = "") {
  Answer answer;
  grpc::ClientContext context;
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  auto reader = stub.Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    answer.text += response.token().text() + response.finished().text();
    answer.responses.push_back(response);
  }
  answer.status = rpc::FromGrpc(reader->Finish());
  return answer;
}

inline v1::GenerateRequest Prompt(const std::string& text, uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.set_max_tokens(max_tokens);
  return request;
}

}  // namespace kvrelay::router
