// A router and a sender that send anything to running workers (real services and servers, fake engine): every call ends
// with a code that names its cause, no KV block stays taken, and a sound handoff still works afterwards.
#include <google/protobuf/stubs/logging.h>

#include <memory>
#include <set>
#include <string>

#include "common/base/check.h"
#include "common/observability/log.h"
#include "common/rpc/server.h"
#include "tests/fuzz/spoil.h"
#include "tests/worker/handoff_messages.h"
#include "tests/worker/test_client.h"
#include "tests/worker/test_worker.h"

namespace kvrelay::fuzz {
namespace {

using worker::v1::DecodeRequest;
using worker::v1::GenerationSpec;
using worker::v1::PrefillRequest;
using worker::v1::ReceiveKvRequest;
using worker::v1::Source;

struct Workers {
  testing::TestDecodeWorker decode;
  testing::TestPrefillWorker prefill;
};

Workers& GetWorkers() {
  static auto* const workers = [] {
    observability::InitLog(observability::LogFormat::kText, observability::LogLevel::kError);
    return new Workers;
  }();
  return *workers;
}

// INTERNAL, UNKNOWN and DEADLINE_EXCEEDED are not among them. Broken UTF-8 is UNIMPLEMENTED (see ARCHITECTURE.md).
void CheckCode(const grpc::Status& status) {
  static const std::set<grpc::StatusCode> kAllowed = {
      grpc::OK,        grpc::CANCELLED,           grpc::INVALID_ARGUMENT,   grpc::NOT_FOUND,    grpc::ABORTED,
      grpc::DATA_LOSS, grpc::FAILED_PRECONDITION, grpc::RESOURCE_EXHAUSTED, grpc::UNIMPLEMENTED};
  KV_CHECK(kAllowed.contains(status.error_code()), "a bad call is the caller's fault");
}

// A prompt that ends soon, so that a call left alone ends by itself.
GenerationSpec SoundSpec(Input& input) { return testing::MakeSpec(1 + input.Below(150), 1 + input.Below(4)); }

class Script {
 public:
  explicit Script(Input input) : input_(input), workers_(GetWorkers()), spec_(SoundSpec(input_)) {}

  void Run() {
    {
      testing::DecodeClient decode(*workers_.decode.stub);
      for (int step = 0; step < kSteps && !input_.empty(); ++step) Step(decode);
      // A reservation without KV would wait for it as long as its owner does.
      if (input_.Below(2) == 0) {
        decode.Cancel();
      } else {
        decode.SendFinish();
      }
      decode.HalfClose();
      CheckCode(decode.Finish());
    }
    KV_CHECK(workers_.decode.engine().WaitUntilFree(), "the decode worker holds no block");
    KV_CHECK(workers_.prefill.engine().WaitUntilFree(), "the prefill worker holds no block");
  }

 private:
  static constexpr int kSteps = 8;

  void Step(testing::DecodeClient& decode) {
    switch (input_.Below(6)) {
      case 0:
        return SendReserve(decode);
      case 1:
        decode.Attempt(1 + input_.Below(4), input_.Below(4) == 0 ? "" : "prefill-1");
        return;
      case 2:
        return SendAnything(decode);
      case 3:
        return SendKv();
      case 4:
        return SendPrefill();
      default:
        if (input_.Below(4) == 0) decode.SendFinish();
        return;
    }
  }

  void SendReserve(testing::DecodeClient& decode) {
    DecodeRequest request;
    worker::v1::Reserve& reserve = *request.mutable_reserve();
    reserve.set_handoff_id(testing::HandoffId('a'));
    *reserve.mutable_spec() = spec_;
    reserve.set_source(static_cast<Source>(1 + input_.Below(3)));
    reserve.set_sender_instance("prefill-1");
    if (input_.Below(3) == 0 && !Spoil(input_, request)) return;
    decode.Write(request);
  }

  void SendAnything(testing::DecodeClient& decode) {
    DecodeRequest request;
    const std::string_view bytes = input_.Bytes(input_.Byte());
    if (request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) decode.Write(request);
  }

  void SendKv() {
    std::vector<ReceiveKvRequest> messages = testing::HandoffMessages(spec_, {.attempt = 1 + input_.Below(3)});
    if (input_.Below(3) == 0 && !Spoil(input_, messages[input_.Below(messages.size())])) return;
    if (input_.Below(8) == 0) std::swap(messages[input_.Below(messages.size())], messages.back());
    CheckCode(testing::KvClient(*workers_.decode.kv_stub).SendAll(messages));
  }

  void SendPrefill() {
    PrefillRequest request = testing::MakePrefill(spec_, 'a', 1 + input_.Below(3), workers_.decode.address());
    if (input_.Below(3) == 0 && !Spoil(input_, request)) return;
    // Nobody else is called from here.
    if (request.has_handoff() && rpc::ParseHostPort(request.handoff().kv_address()).ok())
      request.mutable_handoff()->set_kv_address(workers_.decode.address());
    CheckCode(testing::PrefillClient(*workers_.prefill.stub, request).Finish());
  }

  Input input_;
  Workers& workers_;
  const GenerationSpec spec_;
};

// A whole request between the same workers, as the control that they still do their work.
void CheckStillServing() {
  Workers& workers = GetWorkers();
  const GenerationSpec spec = testing::MakeSpec(70, 3);
  testing::DecodeClient decode(*workers.decode.stub);
  decode.Reserve('c', spec, worker::v1::SOURCE_RECEIVED);
  KV_CHECK(decode.Next().has_value(), "room is there");
  testing::PrefillClient prefill(*workers.prefill.stub, testing::MakePrefill(spec, 'c', 1, workers.decode.address()));
  KV_CHECK(prefill.Finish().ok(), "a sound handoff works");
  KV_CHECK(decode.Rest().size() == 4, "three tokens and the end");
  KV_CHECK(decode.Finish().ok(), "a sound request works");
}

}  // namespace
}  // namespace kvrelay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const quiet = new google::protobuf::LogSilencer;  // it logs each broken UTF-8
  (void)quiet;
  kvrelay::fuzz::Script(kvrelay::fuzz::Input(data, size)).Run();
  static int runs = 0;
  if (runs++ % 64 == 0) kvrelay::fuzz::CheckStillServing();
  return 0;
}
