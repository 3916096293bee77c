// Ten thousand spoiled handoffs from one seed, of every kind that a broken wire or a hostile sender can make, and sound
// ones between them: none of the spoiled is accepted, all of the sound are.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <functional>
#include <iterator>

#include "tests/kv_wire/handoff_fixture.h"

namespace kvrelay::kv_wire {
namespace {

using worker::v1::ReceiveKvRequest;

constexpr int kSpoiled = 12000;

// What one call sends. Its messages are spoiled in place.
struct Call {
  std::vector<ReceiveKvRequest> messages;  // header, frames, commit
  KvHeader& header() { return *messages.front().mutable_header(); }
  KvCommit& commit() { return *messages.back().mutable_commit(); }
};

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  uint32_t Below(size_t count) { return random_() % count; }
  // One that is not `value`: near it, of one bit, or anything.
  uint64_t Other(uint64_t value) {
    const uint64_t others[] = {value + 1, value - 1, 0, value ^ (uint64_t{1} << Below(32)), random_(), ~uint64_t{0}};
    const uint64_t other = others[Below(std::size(others))];
    return static_cast<uint32_t>(other) == static_cast<uint32_t>(value) ? value + 1 : other;
  }

 private:
  std::mt19937 random_;
};

KvFrame& AnyFrame(Call& call, Generator& random) {
  return *call.messages[1 + random.Below(call.messages.size() - 2)].mutable_frame();
}

// The id of a token inside the vocabulary is for the router to compare (it gets the token on another way too), and a
// field that nobody knows says nothing.
bool SaysTheSame(ReceiveKvRequest a, ReceiveKvRequest b) {
  for (ReceiveKvRequest* message : {&a, &b}) {
    message->DiscardUnknownFields();
    if (message->has_commit() && message->commit().selected_size() > 0)
      message->mutable_commit()->mutable_selected(0)->clear_token_id();
  }
  return a.SerializeAsString() == b.SerializeAsString();
}

void FlipBit(Call& call, Generator& random) {
  ReceiveKvRequest& message = call.messages[random.Below(call.messages.size())];
  const ReceiveKvRequest sound = message;
  const std::string encoded = sound.SerializeAsString();
  do {
    std::string flipped = encoded;
    flipped[random.Below(flipped.size())] ^= 1 << random.Below(8);
    if (!message.ParseFromString(flipped)) message = sound;
  } while (SaysTheSame(message, sound));
}

void CutMessage(Call& call, Generator& random) {
  ReceiveKvRequest& message = call.messages[random.Below(call.messages.size())];
  const ReceiveKvRequest sound = message;
  const std::string encoded = sound.SerializeAsString();
  do {
    if (!message.ParseFromString(encoded.substr(0, random.Below(encoded.size())))) message = sound;
  } while (SaysTheSame(message, sound));
}

void DropMessages(Call& call, Generator& random) {
  const size_t first = random.Below(call.messages.size());
  const size_t count = 1 + random.Below(call.messages.size() - first);
  call.messages.erase(call.messages.begin() + first, call.messages.begin() + first + count);
}

// Frames may come in any order; header and commit may not.
void Reorder(Call& call, Generator& random) {
  const size_t last = call.messages.size() - 1;
  if (random.Below(2) == 0) {
    std::swap(call.messages[0], call.messages[1 + random.Below(last)]);
  } else {
    std::swap(call.messages[last], call.messages[random.Below(last)]);
  }
}

void RepeatMessage(Call& call, Generator& random) {
  const size_t which = random.Below(call.messages.size() - 1);
  const size_t where = which + 1 + random.Below(call.messages.size() - 1 - which);
  const ReceiveKvRequest message = call.messages[which];
  call.messages.insert(call.messages.begin() + where, message);
}

void ForeignHeader(Call& call, Generator& random) {
  KvHeader& header = call.header();
  switch (random.Below(5)) {
    case 0:
      (*header.mutable_handoff_id())[random.Below(16)] ^= 1 << random.Below(8);
      break;
    case 1:
      header.set_attempt(random.Other(header.attempt()));
      break;
    case 2:
      header.mutable_sender()->set_instance("prefill-2");
      break;
    case 3:
      header.mutable_sender()->set_model_fingerprint("0123abce");
      break;
    default:
      header.mutable_sender()->set_numerics_id("1-Q4_1-f32-native");
      break;
  }
}

// A sound frame of another request, whose own checksum is right.
void ForeignFrame(Call& call, Generator& random) {
  KvFrame& frame = AnyFrame(call, random);
  (*frame.mutable_payload())[2 * random.Below(frame.payload().size() / 2)] ^= 1 << random.Below(8);
  frame.set_crc32c(FrameCrc32c(frame));
}

void Oversized(Call& call, Generator& random) {
  KvFrame& frame = AnyFrame(call, random);
  switch (random.Below(3)) {
    case 0:
      frame.mutable_payload()->append(1 + random.Below(1 << 16), '\0');
      break;
    case 1: {  // more positions, and as many bytes
      const size_t each = frame.payload().size() / frame.positions();
      frame.set_positions(frame.positions() + 1 + random.Below(100));
      frame.mutable_payload()->resize(frame.positions() * each);
      break;
    }
    default:
      for (uint32_t i = 1 + random.Below(1000); i > 0; --i) *call.commit().add_selected() = Handoff::Token(i, 5);
      break;
  }
  frame.set_crc32c(FrameCrc32c(frame));
}

void WrongTotals(Call& call, Generator& random) {
  KvHeader& header = call.header();
  KvCommit& commit = call.commit();
  switch (random.Below(6)) {
    case 0:
      header.set_first_position(random.Other(header.first_position()));
      break;
    case 1:
      header.set_end_position(random.Other(header.end_position()));
      break;
    case 2:
      header.set_payload_bytes(random.Other(header.payload_bytes()));
      break;
    case 3:
      commit.set_end_position(random.Other(commit.end_position()));
      break;
    case 4:
      commit.set_payload_bytes(random.Other(commit.payload_bytes()));
      break;
    default:
      commit.mutable_selected(0)->set_index(random.Other(0));
      break;
  }
}

void WrongPlace(Call& call, Generator& random) {
  KvFrame& frame = AnyFrame(call, random);
  if (random.Below(2) == 0) {
    frame.set_layer(random.Other(frame.layer()));
  } else {
    frame.set_first_position(random.Other(frame.first_position()));
  }
  frame.set_crc32c(FrameCrc32c(frame));
}

using Kind = void (*)(Call&, Generator&);
constexpr Kind kKinds[] = {FlipBit,       CutMessage,   DropMessages, Reorder,     RepeatMessage,
                           ForeignHeader, ForeignFrame, Oversized,    WrongTotals, WrongPlace};

Call SoundCall(Handoff& handoff, uint32_t attempt) {
  Call call;
  *call.messages.emplace_back().mutable_header() = handoff.Header(attempt);
  for (const KvFrame& frame : handoff.Frames()) *call.messages.emplace_back().mutable_frame() = frame;
  *call.messages.emplace_back().mutable_commit() = handoff.Commit();
  return call;
}

// As the service reads a call: the attempt is that of the header, the first error ends it. True if KV was accepted.
bool Send(HandoffReceiver& receiver, const std::vector<ReceiveKvRequest>& messages) {
  uint32_t attempt = 0;
  for (const ReceiveKvRequest& message : messages) {
    absl::Status status;
    if (message.has_header()) {
      attempt = message.header().attempt();
      status = receiver.OnHeader(message.header());
    } else if (message.has_frame()) {
      status = receiver.OnFrame(attempt, message.frame());
    } else if (message.has_commit()) {
      return receiver.OnCommit(attempt, message.commit()).ok();
    } else {
      status = absl::InvalidArgumentError("neither");
    }
    if (!status.ok()) return false;
  }
  return false;
}

// A reservation, and the sound calls of its first two attempts.
struct Prepared {
  explicit Prepared(std::unique_ptr<Handoff> of)
      : handoff(std::move(of)),
        first(SoundCall(*handoff, 1)),
        second(SoundCall(*handoff, 2)),
        held(CacheBytes(*handoff->target, 0, handoff->first_)) {}
  std::unique_ptr<Handoff> handoff;
  Call first, second;
  std::vector<std::byte> held;
};

// One block, from inside a block to inside the next, and with scales.
std::vector<Prepared> AllPrepared() {
  std::vector<Prepared> all;
  all.emplace_back(std::make_unique<Handoff>(6));
  all.emplace_back(std::make_unique<Handoff>(66, /*first=*/60, kv::KvType::kF32));
  all.emplace_back(std::make_unique<Handoff>(66, /*first=*/61, kv::KvType::kInt8));
  all.emplace_back(std::make_unique<Handoff>(67, /*first=*/63, kv::KvType::kBf16));
  return all;
}

struct Tally {
  int spoiled = 0, accepted_spoiled = 0, sound = 0, accepted_sound = 0;
};

// A spoiled handoff, and for some reservations a sound one after it, which must not notice.
void Round(const Prepared& prepared, Kind spoil, Generator& random, Tally& tally) {
  const Handoff& handoff = *prepared.handoff;
  handoff.target->Clear();
  handoff.target->Publish(handoff.first_);
  const auto receiver = handoff.MakeReceiver();
  Call spoiled = prepared.first;
  spoil(spoiled, random);
  ++tally.spoiled;
  tally.accepted_spoiled += Send(*receiver, spoiled.messages);
  ASSERT_EQ(handoff.target->kv_ready(), handoff.first_);
  ASSERT_FALSE(receiver->published().has_value());
  if (random.Below(4) != 0) return;
  ASSERT_EQ(*receiver->OpenAttempt(2, kSender), 0u);
  ++tally.sound;
  tally.accepted_sound += Send(*receiver, prepared.second.messages);
  ASSERT_EQ(handoff.target->kv_ready(), handoff.tokens_);
  ASSERT_EQ(CacheBytes(*handoff.target, handoff.first_, handoff.tokens_),
            CacheBytes(*handoff.source, handoff.first_, handoff.tokens_));
  ASSERT_EQ(CacheBytes(*handoff.target, 0, handoff.first_), prepared.held) << "what was held before stays";
}

TEST(HandoffGenerated, NoSpoiledHandoffIsAcceptedAndEverySoundOneIs) {
  google::protobuf::LogSilencer quiet;  // it logs each broken UTF-8
  const std::vector<Prepared> all = AllPrepared();
  Generator random(20261130);
  Tally tally;
  for (int i = 0; i < kSpoiled; ++i) {
    const size_t kind = i % std::size(kKinds);
    Round(all[random.Below(all.size())], kKinds[kind], random, tally);
    ASSERT_EQ(tally.accepted_spoiled, 0) << "handoff " << i << ", kind " << kind;
    ASSERT_FALSE(HasFatalFailure()) << "handoff " << i << ", kind " << kind;
  }
  EXPECT_EQ(tally.spoiled, kSpoiled);
  EXPECT_EQ(tally.accepted_sound, tally.sound);
  EXPECT_GT(tally.sound, kSpoiled / 5);
  RecordProperty("spoiled", tally.spoiled);
  RecordProperty("sound", tally.sound);
}

}  // namespace
}  // namespace kvrelay::kv_wire
