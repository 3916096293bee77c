#include "tests/fuzz/handoff_scene.h"

#include <cstring>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/kv_wire/digest.h"
#include "common/kv_wire/frame.h"
#include "common/kv_wire/handoff_sender.h"

namespace kvrelay::fuzz {
namespace {

using worker::v1::KvCommit;
using worker::v1::KvFrame;
using worker::v1::KvHeader;

constexpr char kHandoffId[] = "handoff-of-16-by";
constexpr char kFingerprint[] = "0123abcd";
constexpr char kNumerics[] = "1-Q4_1-f16-native";
constexpr uint32_t kVocabulary = 100, kEnd = 2;

kv::KvLayout LayoutOf(kv::KvType type) { return {.layers = 2, .kv_heads = 1, .head_dim = 32, .type = type}; }

// Values that are finite in every type: the exponent is never all ones.
std::shared_ptr<kv::SequenceCache> FilledCache(kv::BlockPool* pool, int positions, int salt) {
  auto cache = *kv::SequenceCache::Reserve(pool, positions);
  std::vector<std::byte> row(cache->layout().PositionBytes());
  for (int layer = 0; layer < cache->layout().layers; ++layer)
    for (int position = 0; position < positions; ++position) {
      for (size_t i = 0; i < row.size(); ++i)
        row[i] = static_cast<std::byte>((salt + layer * 7 + position * 13 + i * 29) & (i % 2 == 1 ? 0x3f : 0xff));
      cache->CopyIn(layer, position, 1, row);
    }
  return cache;
}

std::string BytesOf(const kv::SequenceCache& cache) {
  const size_t bytes = cache.layout().PositionBytes();
  std::string all(cache.layout().layers * cache.capacity() * bytes, '\0');
  auto* to = reinterpret_cast<std::byte*>(all.data());
  for (int layer = 0; layer < cache.layout().layers; ++layer)
    for (int position = 0; position < cache.capacity(); ++position, to += bytes)
      cache.CopyOut(layer, position, 1, absl::MakeSpan(to, bytes));
  return all;
}

std::shared_ptr<kv::SequenceCache> Target(kv::BlockPool* pool, const SceneShape& shape) {
  auto cache = FilledCache(pool, shape.end + 1, 1);  // with one position that no handoff may touch
  cache->Publish(shape.first);
  return cache;
}

kv_wire::HandoffExpectation ExpectationOf(const SceneShape& shape) {
  return {.handoff_id = kHandoffId,
          .model_fingerprint = kFingerprint,
          .numerics_id = kNumerics,
          .first_position = shape.first,
          .tokens = shape.tokens,
          .max_end_position = shape.end,
          .first_index = 0,
          .vocabulary = kVocabulary,
          .logprobs = 2,
          .ends_request = [](uint32_t, uint32_t token) { return token == kEnd; }};
}

}  // namespace

SoundHandoff::SoundHandoff(const SceneShape& shape) : shape(shape) {
  const auto pool = *kv::BlockPool::Create(LayoutOf(shape.type), kv::BlocksFor(shape.end));
  kv_wire::HandoffSender sender(FilledCache(pool.get(), shape.end, 50), shape.first, shape.end);
  worker::v1::WorkerIdentity identity;
  identity.set_instance("a");
  identity.set_model_fingerprint(kFingerprint);
  identity.set_numerics_id(kNumerics);
  header = sender.Header(kHandoffId, 1, identity);
  for (int layer = 0; layer < LayoutOf(shape.type).layers; ++layer)
    for (const kv_wire::Piece& piece : sender.OnLayer(layer, shape.end))
      sender.BuildFrame(piece, &frames.emplace_back());
  commit = sender.Commit();
  for (int i = 0; i <= shape.end - shape.tokens; ++i) {
    worker::v1::Selected& token = *commit.add_selected();
    token.set_index(i);
    token.set_token_id(5);
  }
}

Stage::Stage(const SceneShape& shape)
    : shape(shape), pool(*kv::BlockPool::Create(LayoutOf(shape.type), kv::BlocksFor(shape.end + 1) + 2)) {
  constexpr int kSalt = 99;
  before = FilledCache(pool.get(), kv::kBlockPositions, kSalt);
  const auto between = Target(pool.get(), shape);
  after = FilledCache(pool.get(), kv::kBlockPositions, kSalt);
  neighbour = BytesOf(*before);
}

void Stage::Check() const {
  KV_CHECK(BytesOf(*before) == neighbour && BytesOf(*after) == neighbour, "another sequence's memory is untouched");
}

HandoffScene::HandoffScene(const Stage* stage)
    : stage_(*stage),
      shape_(stage->shape),
      target_(Target(stage->pool.get(), stage->shape)),
      receiver_(std::make_unique<kv_wire::HandoffReceiver>(target_, ExpectationOf(shape_), Clock::Real())),
      bytes_(BytesOf(*target_)) {}

void HandoffScene::OpenAttempt(uint32_t attempt, const std::string& sender) {
  const absl::StatusOr<uint32_t> winner = receiver_->OpenAttempt(attempt, sender);
  const bool opened = winner.ok() && *winner == 0;
  KV_CHECK(winner.ok() == (!closed_ && (published() || (attempt != 0 && attempt == attempt_ + 1))),
           "an attempt opens if it is the next one");
  KV_CHECK(!winner.ok() || opened != published(), "no attempt opens after the publication");
  if (!opened) return;
  attempt_ = attempt;
  sender_ = sender;
  header_.reset();
  frames_.clear();
}

void HandoffScene::OnHeader(const KvHeader& header) {
  const bool taken = receiver_->OnHeader(header).ok();
  KV_CHECK(!taken || !closed_, "nothing is taken after the end");
  if (taken && !published()) {
    KV_CHECK(header.attempt() == attempt_ && header.sender().instance() == sender_, "the open attempt's own sender");
    KV_CHECK(!header_.has_value(), "an attempt has one header");
    header_ = header;
  }
  CheckReady();
}

void HandoffScene::OnFrame(uint32_t attempt, const KvFrame& frame) {
  const bool taken = receiver_->OnFrame(attempt, frame).ok();
  KV_CHECK(!taken || !closed_, "nothing is taken after the end");
  if (taken && !published()) {
    KV_CHECK(header_.has_value() && attempt == attempt_, "a frame is taken after its header");
    KV_CHECK(frames_.emplace(std::pair(frame.layer(), frame.first_position()), frame).second, "a frame comes once");
    const size_t half = target_->layout().PositionBytes() / 2;  // keys, or values, of a position
    for (size_t p = 0; p < frame.positions(); ++p) {
      const size_t place = frame.layer() * target_->capacity() + frame.first_position() + p;
      KV_CHECK(frame.first_position() + p < header_->end_position(), "a frame is inside the range");
      bytes_.replace(place * 2 * half, half, frame.payload(), p * half, half);
      bytes_.replace(place * 2 * half + half, half, frame.payload(), (frame.positions() + p) * half, half);
    }
  }
  CheckReady();
}

void HandoffScene::OnCommit(uint32_t attempt, const KvCommit& commit) {
  const absl::StatusOr<kv_wire::HandoffReceipt> receipt = receiver_->OnCommit(attempt, commit);
  if (receipt.ok()) {
    KV_CHECK(!closed_, "nothing is published after the end");
    KV_CHECK(receipt->duplicate == published(), "KV is published once");
    if (!receipt->duplicate) {
      KV_CHECK(attempt == attempt_, "only the open attempt publishes");
      CheckPublication(commit, *receipt);
      published_end_ = static_cast<int>(commit.end_position());
    }
  }
  CheckReady();
}

void HandoffScene::Close() {
  receiver_->Close();
  closed_ = true;
}

void HandoffScene::CheckReady() const {
  KV_CHECK(target_->kv_ready() == published_end_.value_or(shape_.first), "positions are published by a commit alone");
}

void HandoffScene::CheckPublication(const KvCommit& commit, const kv_wire::HandoffReceipt& receipt) const {
  KV_CHECK(header_.has_value(), "a handoff has a header");
  const worker::v1::WorkerIdentity& sender = header_->sender();
  KV_CHECK(header_->handoff_id() == kHandoffId && sender.model_fingerprint() == kFingerprint &&
               sender.numerics_id() == kNumerics,
           "the handoff is for this reservation, model and numerics");
  const int end = shape_.tokens + commit.selected_size() - 1;
  KV_CHECK(commit.end_position() == static_cast<uint32_t>(end), "the end follows from the tokens");
  KV_CHECK(end >= shape_.tokens && static_cast<uint32_t>(end) <= header_->end_position() && end <= shape_.end,
           "the end is inside the header's range");
  KV_CHECK(receipt.received == static_cast<uint32_t>(end - shape_.first), "the receipt counts what was published");
  CheckFrames(end);
  std::string digests;
  for (const auto& [place, frame] : frames_) {
    const kv_wire::Digest digest = kv_wire::DigestOf(kv_wire::PayloadOf(frame));
    digests.append(digest.begin(), digest.end());
  }
  const auto whole =
      kv_wire::DigestOf(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(digests.data()), digests.size()));
  KV_CHECK(commit.digest() == std::string(whole.begin(), whole.end()), "the digest is that of the frames");
  for (const worker::v1::Selected& token : commit.selected())
    KV_CHECK(token.token_id() < kVocabulary, "a token is in the vocabulary");
}

// Every position of [first, end) in every layer once, and no other; ordered by layer and position.
void HandoffScene::CheckFrames(int end) const {
  uint32_t layer = 0;
  uint32_t next = shape_.first;
  uint64_t payload = 0;
  for (const auto& [place, frame] : frames_) {
    KV_CHECK(place == std::pair(layer, next), "no position is missing and none comes twice");
    KV_CHECK(kv_wire::AllFinite(target_->layout(), kv_wire::PayloadOf(frame)), "values are finite");
    next += frame.positions();
    payload += frame.payload().size();
    if (next != static_cast<uint32_t>(end)) continue;
    next = shape_.first;
    ++layer;
  }
  KV_CHECK(layer == static_cast<uint32_t>(target_->layout().layers), "all layers came");
  KV_CHECK(payload == kv_wire::PayloadBytes(target_->layout(), shape_.first, end), "so many bytes as it takes");
}

void HandoffScene::CheckBytes() const {
  KV_CHECK(BytesOf(*target_) == bytes_, "only accepted frames are written, each where it belongs");
  stage_.Check();
}

}  // namespace kvrelay::fuzz
