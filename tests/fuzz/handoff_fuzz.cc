// A sequence of handoff messages against one reservation: sound pieces, spoiled ones and any bytes, in any order and of
// any attempt. HandoffScene holds the receiver to its promises after each step.
#include <google/protobuf/stubs/logging.h>

#include <array>
#include <iterator>

#include "common/kv_wire/frame.h"
#include "tests/fuzz/handoff_scene.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/spoil.h"

namespace kvrelay::fuzz {
namespace {

using worker::v1::KvCommit;
using worker::v1::KvFrame;
using worker::v1::KvHeader;
using worker::v1::ReceiveKvRequest;

// Part of a block, two blocks, from inside a block to inside the next, and with more tokens than the first.
constexpr SceneShape kShapes[] = {{kv::KvType::kF16, 0, 5, 5},
                                  {kv::KvType::kInt8, 0, 66, 66},
                                  {kv::KvType::kF32, 62, 65, 65},
                                  {kv::KvType::kBf16, 63, 64, 66}};

// What all inputs of one shape share.
struct Act {
  explicit Act(const SceneShape& shape) : sound(shape), stage(shape) {}
  const SoundHandoff sound;
  const Stage stage;
};

const Act& ActOf(size_t shape) {
  static const auto* const acts =
      new std::array<Act, std::size(kShapes)>{Act(kShapes[0]), Act(kShapes[1]), Act(kShapes[2]), Act(kShapes[3])};
  return (*acts)[shape];
}

class Script {
 public:
  explicit Script(Input input)
      : input_(input), act_(ActOf(input_.Below(std::size(kShapes)))), sound_(act_.sound), scene_(&act_.stage) {
    scene_.OpenAttempt(1, "a");
  }

  void Run() {
    for (int step = 0; step < kSteps && !input_.empty(); ++step) Step();
    scene_.CheckBytes();
  }

 private:
  static constexpr int kSteps = 64;

  void Step() {
    switch (input_.Below(8)) {
      case 0:
        return scene_.OpenAttempt(NearAttempt(), input_.Below(4) == 0 ? "b" : "a");
      case 1:
        return SendHeader();
      case 2:
        return SendFrame();
      case 3:  // the next ones, as they are
        for (uint32_t count = input_.Byte(); count > 0 && next_ < sound_.frames.size(); --count)
          scene_.OnFrame(scene_.attempt(), sound_.frames[next_++]);
        return;
      case 4:
        return SendCommit();
      case 5:
        return SendAnything();
      case 6:
        scene_.CheckBytes();
        return;
      default:
        if (input_.Below(8) == 0) scene_.Close();
        return;
    }
  }

  // Mostly the last one or its neighbours.
  uint32_t NearAttempt() {
    const uint32_t choice = input_.Below(8);
    return choice == 7 ? input_.Number() : scene_.attempt() + 2 - choice % 4;
  }

  uint32_t AttemptOfMessage() { return input_.Below(4) == 0 ? NearAttempt() : scene_.attempt(); }

  void SendHeader() {
    KvHeader header = sound_.header;
    header.set_attempt(AttemptOfMessage());
    if (input_.Below(4) == 0) {
      const uint32_t end = sound_.shape.first + input_.Below(80);
      header.set_end_position(end);
      header.set_payload_bytes(uint64_t{header.payload_bytes()} / (sound_.shape.end - sound_.shape.first) *
                               (end - sound_.shape.first));
    }
    if (input_.Below(4) == 0 && !Spoil(input_, header)) return;
    next_ = 0;
    scene_.OnHeader(header);
  }

  void SendFrame() {
    KvFrame frame = sound_.frames[input_.Below(sound_.frames.size())];
    switch (input_.Below(4)) {
      case 0:
        if (!Spoil(input_, frame)) return;
        break;
      case 1: {  // other positions, whole ones
        const size_t each = frame.payload().size() / frame.positions();
        frame.set_layer(input_.Below(3));
        frame.set_first_position(input_.Byte());
        frame.set_positions(input_.Below(66));
        frame.mutable_payload()->resize(frame.positions() * each, '\1');
        break;
      }
      case 2:
        *frame.mutable_payload() = SpoilBytes(input_, frame.payload());
        break;
      default:
        break;
    }
    if (input_.Below(2) == 0) frame.set_crc32c(kv_wire::FrameCrc32c(frame));
    scene_.OnFrame(AttemptOfMessage(), frame);
  }

  void SendCommit() {
    KvCommit commit = sound_.commit;
    if (input_.Below(4) == 0 && !Spoil(input_, commit)) return;
    if (input_.Below(4) == 0 && commit.selected_size() > 0) commit.mutable_selected()->RemoveLast();
    if (input_.Below(4) == 0) commit.set_ends_request(!commit.ends_request());
    scene_.OnCommit(AttemptOfMessage(), commit);
  }

  // Any bytes as a message of the call.
  void SendAnything() {
    ReceiveKvRequest request;
    const std::string_view bytes = input_.Bytes(input_.Byte());
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    if (request.has_header()) scene_.OnHeader(request.header());
    if (request.has_frame()) scene_.OnFrame(AttemptOfMessage(), request.frame());
    if (request.has_commit()) scene_.OnCommit(AttemptOfMessage(), request.commit());
  }

  Input input_;
  const Act& act_;
  const SoundHandoff& sound_;
  HandoffScene scene_;
  size_t next_ = 0;  // frame of the attempt
};

}  // namespace
}  // namespace kvrelay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  google::protobuf::LogSilencer quiet;  // it logs each broken UTF-8
  kvrelay::fuzz::Script(kvrelay::fuzz::Input(data, size)).Run();
  return 0;
}
