// Workers in this process, with a fake engine and a real gRPC server on a free port of the loopback.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/worker/context.h"
#include "common/worker/task_thread.h"
#include "common/worker/worker_service.h"
#include "decode_worker/decode_service.h"
#include "decode_worker/kv_receiver.h"
#include "kvrelay/worker/v1/decode.grpc.pb.h"
#include "kvrelay/worker/v1/kv.grpc.pb.h"
#include "kvrelay/worker/v1/prefill.grpc.pb.h"
#include "kvrelay/worker/v1/worker.grpc.pb.h"
#include "prefill_worker/prefill_service.h"
#include "tests/worker/fake_engine.h"

namespace kvrelay::testing {

// The tokens that the fake engine selects after a spec's.
inline std::vector<uint32_t> ExpectedTokens(const worker::v1::GenerationSpec& spec, size_t count) {
  std::vector<int32_t> history(spec.token_ids().begin(), spec.token_ids().end());
  for (size_t i = 0; i < count; ++i) history.push_back(FakeNextToken(history, FakeEngineOptions().vocabulary));
  return {history.begin() + spec.token_ids_size(), history.end()};
}

// What both roles have. Members end in reverse order: server, services, ticker, engine.
class TestWorker {
 public:
  TestWorker(const std::string& role, std::unique_ptr<engine::Engine> engine, int vocabulary)
      : engine_(std::move(engine)) {
    context_.clock = Clock::Real();
    context_.engine = engine_.get();
    context_.calls = &calls_;
    context_.ticker = &ticker_;
    context_.tasks = &tasks_;
    context_.kv_in_flight = &kv_in_flight_;
    context_.prompt_tokens = &prompt_tokens_;
    context_.role = role;
    context_.kernel_id = "fake";
    context_.vocabulary = vocabulary;
    context_.eos_ids = {2};
    context_.identity.set_instance(role + "-1");
    context_.identity.set_epoch(42);
    context_.identity.set_model_fingerprint("f1");
    context_.identity.set_numerics_id(engine_->numerics_id());
  }

  worker::WorkerContext& context() { return context_; }
  FakeEngine& engine() { return static_cast<FakeEngine&>(*engine_); }
  worker::LiveCalls& calls() { return calls_; }
  rpc::Server& server() { return *server_; }
  const std::string& address() const { return server_->address(); }

 protected:
  void Serve(std::vector<rpc::ServedService> services) {
    watch_ = worker::NewWorkerService(&context_);
    services.push_back({worker::v1::WorkerService::service_full_name(), watch_.get()});
    server_ = *rpc::Server::Start({.listen = "127.0.0.1:0", .max_receive_bytes = 16 << 20}, services);
    context_.kv_address = server_->address();
    calls_.Open();
  }
  void StopServing() { server_.reset(); }

 private:
  std::unique_ptr<engine::Engine> engine_;
  worker::LiveCalls calls_;
  worker::Ticker ticker_{absl::Milliseconds(20)};
  kv_wire::SendBudget kv_in_flight_;
  worker::TaskThread tasks_;
  worker::TokenBudget prompt_tokens_{10000};
  worker::WorkerContext context_;
  std::unique_ptr<grpc::Service> watch_;
  std::unique_ptr<rpc::Server> server_;
};

class TestDecodeWorker : public TestWorker {
 public:
  explicit TestDecodeWorker(const FakeEngineOptions& options = {})
      : TestDecodeWorker(std::make_unique<FakeEngine>(options), options.vocabulary) {}
  TestDecodeWorker(std::unique_ptr<engine::Engine> engine, int vocabulary)
      : TestWorker("decode", std::move(engine), vocabulary) {
    decode_ = decode_worker::NewDecodeService(&context(), &reservations_);
    kv_ = decode_worker::NewKvService(&reservations_);
    Serve({{worker::v1::DecodeService::service_full_name(), decode_.get()},
           {worker::v1::KvService::service_full_name(), kv_.get()}});
    stub = worker::v1::DecodeService::NewStub(rpc::NewChannel(address()));
    kv_stub = worker::v1::KvService::NewStub(rpc::NewChannel(address()));
  }
  ~TestDecodeWorker() { StopServing(); }

  std::unique_ptr<worker::v1::DecodeService::Stub> stub;
  std::unique_ptr<worker::v1::KvService::Stub> kv_stub;

 private:
  decode_worker::ReservationTable reservations_;
  std::unique_ptr<grpc::Service> decode_, kv_;
};

class TestPrefillWorker : public TestWorker {
 public:
  explicit TestPrefillWorker(const FakeEngineOptions& options = {})
      : TestPrefillWorker(std::make_unique<FakeEngine>(options), options.vocabulary) {}
  TestPrefillWorker(std::unique_ptr<engine::Engine> engine, int vocabulary)
      : TestWorker("prefill", std::move(engine), vocabulary) {
    prefill_ = prefill_worker::NewPrefillService(&context());
    Serve({{worker::v1::PrefillService::service_full_name(), prefill_.get()}});
    stub = worker::v1::PrefillService::NewStub(rpc::NewChannel(address()));
  }
  ~TestPrefillWorker() { StopServing(); }

  std::unique_ptr<worker::v1::PrefillService::Stub> stub;

 private:
  std::unique_ptr<grpc::Service> prefill_;
};

}  // namespace kvrelay::testing
