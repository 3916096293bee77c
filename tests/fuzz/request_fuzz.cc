// Any bytes as a client's request to the router of a small model: refused with words of our own, or turned into a spec
// that keeps every limit and that a worker takes.
#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/engine/validate.h"
#include "common/rpc/status_mapping.h"
#include "common/worker/spec.h"
#include "router/request_validation.h"
#include "router/served_model.h"
#include "tests/fuzz/input.h"
#include "tests/testing/memory_file.h"
#include "tests/testing/tiny_model.h"
#include "tests/worker/fake_engine.h"

namespace kvrelay::fuzz {
namespace {

// A router and a worker of one model.
struct Service {
  Service()
      : model([] {
          const testing::MemoryFile file(testing::TinyModelBytes({.layers = 1, .context_length = 512}));
          return *router::OpenServedModel(file.path(), "tiny");
        }()),
        engine({.context_length = static_cast<int>(model->facts().context_length),
                .vocabulary = static_cast<int>(model->facts().vocabulary_size)}) {
    context.engine = &engine;
    context.vocabulary = engine.options().vocabulary;
    context.eos_ids = model->facts().eos_ids;
  }
  const std::unique_ptr<router::ServedModel> model;
  testing::FakeEngine engine;
  worker::WorkerContext context;
};

const Service& GetService() {
  static const auto* const service = new Service;
  return *service;
}

void CheckRefusal(const absl::Status& status) {
  KV_CHECK(absl::IsInvalidArgument(status) || absl::IsNotFound(status), "a bad request is the client's fault");
  KV_CHECK(rpc::ToGrpc(status).error_message().size() <= rpc::kMaxMessageBytes, "messages are bounded");
}

void CheckIds(const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) KV_CHECK(id >= 0 && id < GetService().context.vocabulary, "an id is in the vocabulary");
}

void Generate(const v1::GenerateRequest& request) {
  const Service& service = GetService();
  const auto flow = router::ToFlowRequest(request, *service.model, 99, "made");
  if (!flow.ok()) return CheckRefusal(flow.status());
  KV_CHECK(!flow->request_id.empty() && flow->request_id.size() <= 128, "a request has a label");
  KV_CHECK(flow->spec.top_p() > 0, "defaults are filled in");
  // Router and worker must agree on what is allowed, or a client would get errors that are not its own.
  const auto spec = worker::ParseSpec(flow->spec, service.context);
  KV_CHECK(spec.ok(), "a worker takes what the router let through");
  const absl::Status valid = engine::ValidateSpec(*spec, service.context.vocabulary, service.engine.context_length());
  KV_CHECK(valid.ok(), "an engine takes what the router let through");
}

void Tokenize(const v1::TokenizeRequest& request) {
  const auto ids = router::TokenizePrompt(request, *GetService().model);
  if (!ids.ok()) return CheckRefusal(ids.status());
  CheckIds(*ids);
  const std::string text = GetService().model->Decode(*ids, true);
  // Every byte is a token of this model, and nothing is normalized.
  if (request.has_text()) KV_CHECK(text == request.text(), "text comes back from its ids");
}

void Detokenize(const v1::DetokenizeRequest& request) {
  const absl::Status status = router::CheckDetokenize(request, GetService().model->facts());
  if (!status.ok()) return CheckRefusal(status);
  const std::vector<int32_t> ids(request.ids().begin(), request.ids().end());
  CheckIds(ids);
  (void)GetService().model->Decode(ids, request.include_control());
}

template <typename Request>
void Parsed(std::string_view bytes, void (*handle)(const Request&)) {
  Request request;
  if (request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) handle(request);
}

}  // namespace
}  // namespace kvrelay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvrelay::fuzz;
  google::protobuf::LogSilencer quiet;  // it logs each broken UTF-8
  Input input(data, size);
  switch (input.Below(4)) {
    case 0:
      Parsed(input.Rest(), Tokenize);
      break;
    case 1:
      Parsed(input.Rest(), Detokenize);
      break;
    default:
      Parsed(input.Rest(), Generate);
      break;
  }
  return 0;
}
