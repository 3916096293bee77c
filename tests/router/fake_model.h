// A model small enough to do in the head: ids below 256 are bytes, 256 ends a sequence, and the next token is a pure
// function of those before it, so that every way of executing a request must give the same text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvrelay/worker/v1/worker.pb.h"
#include "router/served_model.h"

namespace kvrelay::router {

inline constexpr uint32_t kFakeVocabulary = 300;
inline constexpr uint32_t kFakeEos = 256;
inline constexpr uint32_t kFakeContext = 4096;
inline constexpr char kFakeFingerprint[] = "f00dfeedf00dfeed";

// A lower-case letter that depends on all tokens and their order.
inline uint32_t FakeNext(const std::vector<uint32_t>& tokens) {
  uint32_t mixed = 17;
  for (const uint32_t token : tokens) mixed = mixed * 31 + token;
  return 'a' + (mixed >> 8) % 26;
}

inline std::string FakeBytes(int32_t id, bool include_control) {
  if (id < 256) return std::string(1, static_cast<char>(id));
  return id == static_cast<int32_t>(kFakeEos) && include_control ? "<eos>" : "";
}

class FakeModel final : public ServedModel {
 public:
  explicit FakeModel(bool adds_bos = false) : ServedModel(Facts(adds_bos)) {}

  absl::StatusOr<std::vector<int32_t>> EncodeText(const std::string& text) const override {
    std::vector<int32_t> ids;
    if (facts().adds_bos) ids.push_back(0);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  absl::StatusOr<std::vector<int32_t>> EncodeChat(absl::Span<const text::ChatMessage> messages) const override {
    std::string rendered;
    for (const text::ChatMessage& message : messages) rendered += message.role + ":" + message.content + "\n";
    return EncodeText(rendered);
  }
  std::string TokenBytes(int32_t id, bool include_control) const override { return FakeBytes(id, include_control); }
  std::string Decode(absl::Span<const int32_t> ids, bool include_control) const override {
    std::string bytes;
    for (const int32_t id : ids) bytes += FakeBytes(id, include_control);
    return text::ReplaceInvalidUtf8(bytes);
  }
  // Knows one that is wrong.
  absl::Status CheckGrammar(text::GrammarLanguage language, const std::string& source) const override {
    return source == "wrong" ? absl::InvalidArgumentError("no such grammar") : absl::OkStatus();
  }

 private:
  static ModelFacts Facts(bool adds_bos) {
    ModelFacts facts;
    facts.name = "fake";
    facts.architecture = "llama";
    facts.fingerprint = kFakeFingerprint;
    facts.context_length = kFakeContext;
    facts.vocabulary_size = kFakeVocabulary;
    facts.adds_bos = adds_bos;
    facts.eos_ids = {static_cast<int32_t>(kFakeEos)};
    return facts;
  }
};

// One worker's part of one request: selects tokens and keeps the books, as a real worker does.
class FakeSession {
 public:
  FakeSession(const wire::GenerationSpec& spec, bool cached)
      : spec_(spec), tokens_(spec.token_ids().begin(), spec.token_ids().end()), cached_(cached) {}

  // The KV of all of spec.token_ids has arrived, with the token that follows.
  wire::Selected Receive(const wire::Selected& from_sender) {
    positions_.set_received(static_cast<uint32_t>(tokens_.size()));
    positions_.set_kv_ready(positions_.received());
    tokens_.push_back(from_sender.token_id());
    wire::Selected copy = from_sender;
    copy.clear_run();
    *copy.mutable_positions() = positions_;
    return copy;
  }

  // One run.
  wire::Selected Select() {
    const auto length = static_cast<uint32_t>(tokens_.size());
    const uint32_t first = positions_.kv_ready();
    const uint32_t again = cached_ || computed_before_ == 0 ? 0 : computed_before_ - first;
    positions_.set_computed(positions_.computed() + length - first);
    positions_.set_recomputed(positions_.recomputed() + again);
    positions_.set_kv_ready(length);
    if (!cached_) {
      positions_.set_discarded(positions_.discarded() + length);
      positions_.set_kv_ready(0);
    }
    computed_before_ = length;
    wire::Selected selected;
    selected.set_index(length - spec_.prompt_length());
    selected.set_token_id(FakeNext(tokens_));
    tokens_.push_back(selected.token_id());
    selected.set_end(End(selected));
    *selected.mutable_positions() = positions_;
    if (spec_.trace()) {
      wire::Run& run = *selected.mutable_run();
      run.set_first_position(first);
      run.set_end_position(length);
      run.set_computed(length - first - again);
      run.set_recomputed(again);
      run.set_appended(length - first);
      run.set_positions_read(length);
    }
    return selected;
  }

  // Positions shipped, for a sender.
  void Ship() { positions_.set_shipped(static_cast<uint32_t>(spec_.token_ids_size())); }
  const wire::Positions& positions() const { return positions_; }
  const wire::GenerationSpec& spec() const { return spec_; }

 private:
  wire::EndReason End(const wire::Selected& selected) const {
    for (const uint32_t stop : spec_.stop_token_ids()) {
      if (stop == selected.token_id() && selected.index() >= spec_.min_tokens()) return wire::END_REASON_STOP_TOKEN;
    }
    return selected.index() + 1 == spec_.max_tokens() ? wire::END_REASON_LENGTH : wire::END_REASON_UNSPECIFIED;
  }

  const wire::GenerationSpec spec_;
  std::vector<uint32_t> tokens_;
  const bool cached_;
  uint32_t computed_before_ = 0;
  wire::Positions positions_;
};

// What a request must give: `count` tokens after `tokens`.
inline std::vector<uint32_t> FakeContinuation(std::vector<uint32_t> tokens, uint32_t count) {
  std::vector<uint32_t> selected;
  for (uint32_t i = 0; i < count; ++i) {
    selected.push_back(FakeNext(tokens));
    tokens.push_back(selected.back());
  }
  return selected;
}

inline std::string FakeText(const std::vector<uint32_t>& tokens) { return std::string(tokens.begin(), tokens.end()); }

}  // namespace kvrelay::router
