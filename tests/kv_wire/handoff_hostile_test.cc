// What a broken or hostile peer may send: never published, never a crash, never memory beyond the reservation.
#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>

#include <functional>
#include <limits>

#include "tests/kv_wire/handoff_fixture.h"

namespace kvrelay::kv_wire {
namespace {

using absl::StatusCode;

// Sends the three parts; returns the first error, and holds the receiver to its promise.
absl::Status Transfer(Handoff* handoff, const KvHeader& header, const std::vector<KvFrame>& frames,
                      const KvCommit& commit) {
  const auto receiver = handoff->MakeReceiver();
  absl::Status status = receiver->OnHeader(header);
  for (size_t i = 0; status.ok() && i < frames.size(); ++i) status = receiver->OnFrame(1, frames[i]);
  if (status.ok()) status = receiver->OnCommit(1, commit).status();
  if (!status.ok()) {
    EXPECT_EQ(handoff->target->kv_ready(), 0);
    EXPECT_FALSE(receiver->published().has_value());
    EXPECT_LT(status.message().size(), 400u) << "a peer does not choose the size of our messages";
    EXPECT_NE(receiver->OnFrame(1, handoff->Frames()[0]), absl::OkStatus()) << "the attempt stays unusable";
    EXPECT_NE(receiver->OnCommit(1, handoff->Commit()).status(), absl::OkStatus());
    EXPECT_EQ(handoff->target->kv_ready(), 0);
  }
  handoff->target->Clear();
  return status;
}

// Over a type whose positions are values only, and one that has scales among them.
class Hostile : public testing::TestWithParam<kv::KvType> {
 protected:
  StatusCode WithHeader(const std::function<void(KvHeader*)>& change) {
    KvHeader header = handoff_.Header();
    change(&header);
    return Transfer(&handoff_, header, frames_, commit_).code();
  }
  // Changes the frame of layer 1, block 0, and makes its checksum right again, as a hostile sender would.
  StatusCode WithFrame(const std::function<void(KvFrame*)>& change) {
    auto frames = frames_;
    change(&frames[2]);
    frames[2].set_crc32c(FrameCrc32c(frames[2]));
    return Transfer(&handoff_, handoff_.Header(), frames, commit_).code();
  }
  StatusCode WithCommit(const std::function<void(KvCommit*)>& change) {
    KvCommit commit = commit_;
    change(&commit);
    return Transfer(&handoff_, handoff_.Header(), frames_, commit).code();
  }

  // The commit of a hostile sender, whose digest is of just these frames.
  KvCommit CommitOf(const std::vector<KvFrame>& frames) {
    HandoffDigest digest(3, 2);
    for (const KvFrame& frame : frames)
      digest.Add(static_cast<int>(frame.layer()), static_cast<int>(frame.first_position()) / 64,
                 DigestOf(PayloadOf(frame)));
    const Digest whole = digest.Finish(2);
    KvCommit commit = commit_;
    commit.set_digest(std::string(whole.begin(), whole.end()));
    return commit;
  }

  Handoff handoff_{70, 0, GetParam()};
  const std::vector<KvFrame> frames_ = handoff_.Frames();  // layers 0 to 2, blocks 0 (full) and 1 (6 positions)
  const KvCommit commit_ = handoff_.Commit();
};

TEST_P(Hostile, TheUnchangedHandoffIsAccepted) {
  EXPECT_EQ(frames_.size(), 6u);
  EXPECT_TRUE(Transfer(&handoff_, handoff_.Header(), frames_, commit_).ok());
}

// Every bit of the encoded header: whatever still parses is refused.
TEST_P(Hostile, AnyFlippedBitOfTheHeaderIsRefused) {
  google::protobuf::LogSilencer quiet;  // it logs each broken UTF-8
  const std::string encoded = handoff_.Header().SerializeAsString();
  for (size_t bit = 0; bit < encoded.size() * 8; ++bit) {
    std::string flipped = encoded;
    flipped[bit / 8] ^= 1 << bit % 8;
    KvHeader header;
    if (!header.ParseFromString(flipped)) continue;
    ASSERT_NE(handoff_.MakeReceiver()->OnHeader(header), absl::OkStatus()) << bit << " " << header.DebugString();
  }
}

// Every bit of the encoded frame, payload included.
TEST_P(Hostile, AnyFlippedBitOfAFrameIsRefused) {
  const std::string encoded = frames_[3].SerializeAsString();
  for (size_t bit = 0; bit < encoded.size() * 8; ++bit) {
    std::string flipped = encoded;
    flipped[bit / 8] ^= 1 << bit % 8;
    KvFrame frame;
    if (!frame.ParseFromString(flipped)) continue;
    const auto receiver = handoff_.MakeReceiver();
    ASSERT_TRUE(receiver->OnHeader(handoff_.Header()).ok());
    ASSERT_NE(receiver->OnFrame(1, frame), absl::OkStatus()) << bit;
  }
}

// Every bit of the encoded commit. A flip inside a token's id that stays in the vocabulary is the one thing that only
// the router can see (it compares both copies of the token); it may be accepted, with everything else as it was.
TEST_P(Hostile, AnyFlippedBitOfTheCommitIsRefused) {
  const std::string encoded = commit_.SerializeAsString();
  int accepted = 0;
  for (size_t bit = 0; bit < encoded.size() * 8; ++bit) {
    std::string flipped = encoded;
    flipped[bit / 8] ^= 1 << bit % 8;
    KvCommit commit;
    if (!commit.ParseFromString(flipped) || !Transfer(&handoff_, handoff_.Header(), frames_, commit).ok()) continue;
    ++accepted;
    commit.mutable_selected(0)->set_token_id(commit_.selected(0).token_id());
    commit.mutable_selected(0)->DiscardUnknownFields();
    EXPECT_EQ(commit.SerializeAsString(), encoded) << bit;
  }
  EXPECT_LT(accepted, 16);
}

TEST_P(Hostile, HeadersOfAnotherModelOrRange) {
  const auto kPrecondition = StatusCode::kFailedPrecondition;
  EXPECT_EQ(WithHeader([](KvHeader* h) { h->mutable_sender()->set_model_fingerprint("ff"); }), kPrecondition);
  EXPECT_EQ(WithHeader([](KvHeader* h) { h->mutable_sender()->set_model_fingerprint(std::string(1 << 20, '\n')); }),
            kPrecondition);
  EXPECT_EQ(WithHeader([](KvHeader* h) { h->mutable_sender()->set_numerics_id(""); }), kPrecondition);
  EXPECT_EQ(WithHeader([](KvHeader* h) { h->mutable_layout()->set_version(2); }), kPrecondition);
  for (const char* type : {"f32", "bf16", GetParam() == kv::KvType::kF16 ? "int8" : "f16", "q8", ""})
    EXPECT_EQ(WithHeader([type](KvHeader* h) { h->mutable_layout()->set_type(type); }), kPrecondition) << type;
  EXPECT_EQ(WithHeader([](KvHeader* h) { h->clear_layout(); }), kPrecondition);
  for (uint32_t lie : {0u, 1u, 1u << 31, 0xffffffffu}) {
    EXPECT_EQ(WithHeader([lie](KvHeader* h) { h->mutable_layout()->set_layers(lie); }), kPrecondition);
    EXPECT_EQ(WithHeader([lie](KvHeader* h) { h->mutable_layout()->set_kv_heads(lie); }), kPrecondition);
    EXPECT_EQ(WithHeader([lie](KvHeader* h) { h->mutable_layout()->set_head_dim(lie); }), kPrecondition);
    EXPECT_EQ(WithHeader([lie](KvHeader* h) { h->mutable_layout()->set_block_positions(lie); }), kPrecondition);
    EXPECT_EQ(WithHeader([lie](KvHeader* h) { h->set_first_position(lie + (lie == 0)); }), kPrecondition);
    EXPECT_EQ(WithHeader([lie](KvHeader* h) { h->set_end_position(lie); }), kPrecondition);
    EXPECT_EQ(WithHeader([lie](KvHeader* h) { h->set_payload_bytes(lie); }), kPrecondition);
  }
  EXPECT_EQ(WithHeader([](KvHeader* h) { h->set_payload_bytes(~0ull); }), kPrecondition);
  EXPECT_EQ(WithHeader([](KvHeader* h) { h->set_end_position(69); }), kPrecondition);
  EXPECT_EQ(WithHeader([](KvHeader* h) { h->set_end_position(71); }), kPrecondition);
}

TEST_P(Hostile, FramesThatDoNotFitAreRefusedEvenWithARightChecksum) {
  const auto kInvalid = StatusCode::kInvalidArgument;
  for (uint32_t lie : {3u, 1u << 31, 0xffffffffu}) {
    EXPECT_EQ(WithFrame([lie](KvFrame* f) { f->set_layer(lie); }), kInvalid);
    EXPECT_EQ(WithFrame([lie](KvFrame* f) { f->set_first_position(lie); }), kInvalid);
    EXPECT_EQ(WithFrame([lie](KvFrame* f) { f->set_positions(lie); }), kInvalid);
  }
  EXPECT_EQ(WithFrame([](KvFrame* f) { f->set_positions(0); }), kInvalid);
  EXPECT_EQ(WithFrame([](KvFrame* f) { f->clear_payload(); }), kInvalid);
  EXPECT_EQ(WithFrame([](KvFrame* f) { f->mutable_payload()->pop_back(); }), kInvalid);
  EXPECT_EQ(WithFrame([](KvFrame* f) { f->mutable_payload()->push_back('x'); }), kInvalid);
  EXPECT_EQ(WithFrame([](KvFrame* f) { f->mutable_payload()->resize(8 << 20); }), kInvalid) << "oversized";

  // Right sizes at wrong places.
  const size_t bytes = handoff_.layout_.PositionBytes();
  const auto move = [&](uint32_t first, uint32_t positions) {
    return WithFrame([=](KvFrame* f) {
      f->set_first_position(first);
      f->set_positions(positions);
      f->mutable_payload()->resize(positions * bytes);
    });
  };
  EXPECT_EQ(move(64, 7), kInvalid) << "past the end";
  EXPECT_EQ(move(65, 5), kInvalid) << "not from the block's start";
  EXPECT_EQ(move(1, 63), kInvalid);
  EXPECT_EQ(move(1, 64), kInvalid) << "two blocks";
  EXPECT_EQ(move(128, 64), kInvalid) << "a block beyond";
  EXPECT_EQ(move(0xffffffc0u, 64), kInvalid) << "first + positions wraps around";
  EXPECT_EQ(move(0, 63), kInvalid) << "shorter than in another layer";
}

TEST_P(Hostile, FramesBeforeTheRangeAreRefused) {
  Handoff handoff(200, /*first=*/100, GetParam());
  const auto receiver = handoff.MakeReceiver();
  ASSERT_TRUE(receiver->OnHeader(handoff.Header()).ok());
  KvFrame frame;
  BuildFrame(*handoff.source, {.layer = 0, .first_position = 64, .positions = 64}, &frame);
  EXPECT_EQ(receiver->OnFrame(1, frame).code(), StatusCode::kInvalidArgument) << "it would overwrite what is held";
  EXPECT_EQ(handoff.target->kv_ready(), 100) << "what was held before stays";
}

TEST_P(Hostile, MissingRepeatedAndForeignFrames) {
  for (size_t i = 0; i < frames_.size(); ++i) {
    auto frames = frames_;
    frames.erase(frames.begin() + i);
    EXPECT_EQ(Transfer(&handoff_, handoff_.Header(), frames, commit_).code(), StatusCode::kDataLoss) << "missing " << i;
    frames.push_back(frames[0]);
    EXPECT_EQ(Transfer(&handoff_, handoff_.Header(), frames, commit_).code(), StatusCode::kInvalidArgument)
        << "repeated";
    // A sound frame of another request: only the digest can tell.
    Handoff other(70, 0, GetParam(), 0, /*seed=*/2);
    frames = frames_;
    frames[i] = other.Frames()[i];
    EXPECT_EQ(Transfer(&handoff_, handoff_.Header(), frames, commit_).code(), StatusCode::kDataLoss) << "foreign " << i;
    // Two frames that changed places.
    frames = frames_;
    frames[i].mutable_payload()->swap(*frames[(i + 2) % 6].mutable_payload());
    frames[i].set_crc32c(FrameCrc32c(frames[i]));
    frames[(i + 2) % 6].set_crc32c(FrameCrc32c(frames[(i + 2) % 6]));
    EXPECT_EQ(Transfer(&handoff_, handoff_.Header(), frames, commit_).code(), StatusCode::kDataLoss) << "swapped " << i;
  }
  EXPECT_EQ(Transfer(&handoff_, handoff_.Header(), {}, commit_).code(), StatusCode::kDataLoss) << "none at all";
}

// Every layer agrees on a short last block, and the digest is of these very frames: only the commit's end shows it.
TEST_P(Hostile, AShortLastBlockIsMissingFrames) {
  auto frames = frames_;
  for (KvFrame& frame : frames)
    if (frame.first_position() == 64) BuildFrame(*handoff_.source, {static_cast<int>(frame.layer()), 64, 5}, &frame);
  EXPECT_EQ(Transfer(&handoff_, handoff_.Header(), frames, CommitOf(frames)).code(), StatusCode::kDataLoss);
}

// Checksum and digest are right: the values themselves are looked at, or the scales of int8 (after 32 values each).
TEST_P(Hostile, NonFiniteValues) {
  EXPECT_TRUE(Transfer(&handoff_, handoff_.Header(), frames_, CommitOf(frames_)).ok());
  const bool scales = GetParam() == kv::KvType::kInt8;
  const size_t payload = 64 * handoff_.layout_.PositionBytes();
  for (size_t at : {size_t{scales ? 32u : 0u}, size_t{scales ? 59 * 34 + 32u : 2002u}, payload - 2})
    for (uint16_t bad : {0x7c00, 0xfc00, 0x7e00, 0xffff}) {
      auto frames = frames_;
      std::memcpy(frames[2].mutable_payload()->data() + at, &bad, sizeof(bad));
      frames[2].set_crc32c(FrameCrc32c(frames[2]));
      EXPECT_EQ(Transfer(&handoff_, handoff_.Header(), frames, CommitOf(frames)).code(), StatusCode::kDataLoss);
    }
}

TEST_P(Hostile, CommitsThatContradictWhatCame) {
  const auto kLoss = StatusCode::kDataLoss;
  for (uint32_t lie : {0u, 69u, 71u, 1u << 31, 0xffffffffu}) {
    EXPECT_EQ(WithCommit([lie](KvCommit* c) { c->set_end_position(lie); }), kLoss);
    EXPECT_EQ(WithCommit([lie](KvCommit* c) { c->set_payload_bytes(lie); }), kLoss);
  }
  EXPECT_EQ(WithCommit([](KvCommit* c) { c->set_payload_bytes(~0ull); }), kLoss);
  EXPECT_EQ(WithCommit([](KvCommit* c) { c->clear_digest(); }), kLoss);
  EXPECT_EQ(WithCommit([](KvCommit* c) { c->mutable_digest()->pop_back(); }), kLoss);
  EXPECT_EQ(WithCommit([](KvCommit* c) { c->mutable_digest()->resize(1 << 20); }), kLoss);
}

TEST_P(Hostile, SelectedTokensThatCannotBe) {
  const auto kLoss = StatusCode::kDataLoss;
  const auto token = [this](const std::function<void(worker::v1::Selected*)>& change) {
    return WithCommit([&](KvCommit* c) { change(c->mutable_selected(0)); });
  };
  EXPECT_EQ(WithCommit([](KvCommit* c) { c->clear_selected(); }), kLoss);
  EXPECT_EQ(WithCommit([](KvCommit* c) { *c->add_selected() = Handoff::Token(1, 5); }), kLoss);
  EXPECT_EQ(WithCommit([](KvCommit* c) {
              for (int i = 1; i < 100000; ++i) *c->add_selected() = Handoff::Token(i, 5);
            }),
            kLoss);
  EXPECT_EQ(token([](auto* t) { t->set_index(1); }), kLoss);
  EXPECT_EQ(token([](auto* t) { t->set_token_id(kVocabulary); }), kLoss);
  EXPECT_EQ(token([](auto* t) { t->set_token_id(0xffffffffu); }), kLoss);
  EXPECT_EQ(token([](auto* t) { t->set_logprob(std::numeric_limits<float>::quiet_NaN()); }), kLoss);
  EXPECT_EQ(token([](auto* t) { t->add_top()->set_token_id(kVocabulary); }), kLoss);
  EXPECT_EQ(token([](auto* t) { t->add_top()->set_logprob(std::numeric_limits<float>::quiet_NaN()); }), kLoss);
  EXPECT_EQ(token([](auto* t) {
              for (int i = 0; i < 3; ++i) t->add_top();
            }),
            kLoss);
  // The end rule must give the same on both sides.
  EXPECT_EQ(WithCommit([](KvCommit* c) { c->set_ends_request(true); }), kLoss);
  EXPECT_EQ(token([](auto* t) { t->set_token_id(kEos); }), kLoss);
  EXPECT_EQ(WithCommit([](KvCommit* c) {
              c->mutable_selected(0)->set_token_id(kEos);
              c->set_ends_request(true);
            }),
            StatusCode::kOk);
}

INSTANTIATE_TEST_SUITE_P(Types, Hostile, testing::Values(kv::KvType::kF16, kv::KvType::kInt8),
                         [](const auto& info) { return std::string(kv::KvTypeName(info.param)); });

}  // namespace
}  // namespace kvrelay::kv_wire
