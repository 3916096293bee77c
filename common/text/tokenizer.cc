#include "common/text/tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/text/rust/kvrelay_text.h"
#include "common/text/take_status.h"
#include "common/text/utf8.h"
#include "common/text/vocabulary.h"

namespace kvrelay::text {
namespace {

// Far above what any context length holds; bounds the time and memory of one call.
constexpr size_t kMaxInputBytes = 1 << 20;
constexpr size_t kMaxMessages = 4096;

struct FreeEncoder {
  void operator()(kvr_encoder* encoder) const { kvr_encoder_free(encoder); }
};
struct FreeTemplate {
  void operator()(kvr_template* chat_template) const { kvr_template_free(chat_template); }
};
using EncoderPointer = std::unique_ptr<kvr_encoder, FreeEncoder>;
using TemplatePointer = std::unique_ptr<kvr_template, FreeTemplate>;

kvr_str Str(std::string_view text) { return {text.data(), text.size()}; }

// Takes over `ids`.
std::vector<int32_t> TakeIds(kvr_ids ids) {
  std::vector<int32_t> copy(ids.data, ids.data + ids.size);
  kvr_ids_free(ids);
  return copy;
}

absl::StatusOr<EncoderPointer> MakeEncoder(const Vocabulary& vocabulary) {
  std::vector<kvr_str> tokens;
  tokens.reserve(vocabulary.tokens.size());
  for (const std::string& token : vocabulary.tokens) tokens.push_back(Str(token));
  std::vector<uint8_t> kinds;
  kinds.reserve(vocabulary.kinds.size());
  for (const TokenKind kind : vocabulary.kinds) kinds.push_back(static_cast<uint8_t>(kind));
  std::vector<kvr_merge> merges;
  merges.reserve(vocabulary.merges.size());
  for (const Merge& merge : vocabulary.merges) merges.push_back({merge.left, merge.right});

  const kvr_vocabulary given = {.tokens = tokens.data(),
                                .kinds = kinds.data(),
                                .token_count = tokens.size(),
                                .merges = merges.data(),
                                .merge_count = merges.size(),
                                .pre_tokenizer = static_cast<int32_t>(vocabulary.pre_tokenizer),
                                .space_prefix = static_cast<int32_t>(vocabulary.space_prefix),
                                .ignores_merges = vocabulary.ignores_merges};
  kvr_encoder* encoder = nullptr;
  kvr_bytes error{};
  const int32_t code = kvr_encoder_new(&given, &encoder, &error);
  KV_RETURN_IF_ERROR(TakeStatus(code, error));
  return EncoderPointer(encoder);
}

absl::StatusOr<TemplatePointer> MakeTemplate(const Vocabulary& vocabulary) {
  if (!vocabulary.chat_template.has_value()) {
    return absl::FailedPreconditionError("the model has no chat template; send plain text instead");
  }
  const auto token = [&](std::optional<int32_t> id) {
    return id.has_value() ? Str(vocabulary.tokens[*id]) : kvr_str{};
  };
  const kvr_str bos = token(vocabulary.bos_id);
  const kvr_str eos = token(vocabulary.eos_id);
  kvr_template* chat_template = nullptr;
  kvr_bytes error{};
  const int32_t code = kvr_template_new(Str(*vocabulary.chat_template), vocabulary.bos_id.has_value() ? &bos : nullptr,
                                        vocabulary.eos_id.has_value() ? &eos : nullptr, &chat_template, &error);
  KV_RETURN_IF_ERROR(TakeStatus(code, error));
  return TemplatePointer(chat_template);
}

absl::Status CheckInputSize(size_t bytes) {
  if (bytes <= kMaxInputBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the text has ", bytes, " bytes, more than the ", kMaxInputBytes, " that one request may have"));
}

}  // namespace

static_assert(static_cast<int>(TokenKind::kControl) == KVR_KIND_CONTROL);
static_assert(static_cast<int>(TokenKind::kUserDefined) == KVR_KIND_USER_DEFINED);
static_assert(static_cast<int>(PreTokenizer::kGpt2) == KVR_PRE_GPT2);
static_assert(static_cast<int>(PreTokenizer::kSmollm) == KVR_PRE_SMOLLM);
static_assert(static_cast<int>(PreTokenizer::kLlama3) == KVR_PRE_LLAMA3);
static_assert(static_cast<int>(PreTokenizer::kQwen2) == KVR_PRE_QWEN2);
static_assert(static_cast<int>(PreTokenizer::kSentencePiece) == KVR_PRE_SENTENCEPIECE);
static_assert(static_cast<int>(SpacePrefix::kNone) == KVR_PREFIX_NONE);
static_assert(static_cast<int>(SpacePrefix::kEvery) == KVR_PREFIX_EVERY);
static_assert(static_cast<int>(SpacePrefix::kEveryUnspaced) == KVR_PREFIX_EVERY_UNSPACED);
static_assert(static_cast<int>(SpacePrefix::kFirstUnspaced) == KVR_PREFIX_FIRST_UNSPACED);

struct Tokenizer::State {
  EncoderPointer encoder;
  // A model whose template cannot be used still serves plain text.
  absl::StatusOr<TemplatePointer> chat_template;
  bool has_chat_template;
  std::vector<std::string> bytes;  // [vocabulary] of each token, control tokens by name
  std::vector<TokenKind> kinds;    // [vocabulary]
  std::vector<int32_t> eos_ids;
  std::optional<int32_t> bos_id;
  bool adds_bos;
};

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromFile(const model_file::ModelFile& file) {
  KV_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocabulary(file));
  KV_ASSIGN_OR_RETURN(EncoderPointer encoder, MakeEncoder(vocabulary));
  auto state = std::make_unique<State>(State{.encoder = std::move(encoder),
                                             .chat_template = MakeTemplate(vocabulary),
                                             .has_chat_template = vocabulary.chat_template.has_value(),
                                             .bytes = {},
                                             .kinds = {},
                                             .eos_ids = std::move(vocabulary.end_ids),
                                             .bos_id = vocabulary.bos_id,
                                             .adds_bos = vocabulary.adds_bos});
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) state->bytes.push_back(BytesOfToken(vocabulary, id));
  state->kinds = std::move(vocabulary.kinds);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(state)));
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

int Tokenizer::vocabulary_size() const { return static_cast<int>(state_->bytes.size()); }
const std::vector<int32_t>& Tokenizer::eos_ids() const { return state_->eos_ids; }
std::optional<int32_t> Tokenizer::bos_id() const { return state_->bos_id; }
bool Tokenizer::adds_bos() const { return state_->adds_bos; }
bool Tokenizer::has_chat_template() const { return state_->has_chat_template; }

bool Tokenizer::IsControl(int32_t id) const {
  KV_CHECK(id >= 0 && id < vocabulary_size(), "token id outside the vocabulary");
  return state_->kinds[id] == TokenKind::kControl;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeText(std::string_view text) const {
  KV_RETURN_IF_ERROR(CheckInputSize(text.size()));
  kvr_ids ids{};
  kvr_bytes error{};
  const int32_t code = kvr_encode(state_->encoder.get(), Str(text), &ids, &error);
  KV_RETURN_IF_ERROR(TakeStatus(code, error));
  std::vector<int32_t> result = TakeIds(ids);
  if (state_->adds_bos) result.insert(result.begin(), *state_->bos_id);
  return result;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeChat(absl::Span<const ChatMessage> messages) const {
  KV_RETURN_IF_ERROR(state_->chat_template.status());
  if (messages.size() > kMaxMessages) {
    return absl::InvalidArgumentError(
        absl::StrCat("the conversation has ", messages.size(), " messages, more than ", kMaxMessages));
  }
  size_t bytes = 0;
  std::vector<kvr_message> given;
  given.reserve(messages.size());
  for (const ChatMessage& message : messages) {
    bytes += message.role.size() + message.content.size();
    given.push_back({Str(message.role), Str(message.content)});
  }
  KV_RETURN_IF_ERROR(CheckInputSize(bytes));
  kvr_ids ids{};
  kvr_bytes error{};
  const int32_t code =
      kvr_encode_chat(state_->encoder.get(), state_->chat_template->get(), given.data(), given.size(), &ids, &error);
  KV_RETURN_IF_ERROR(TakeStatus(code, error));
  return TakeIds(ids);
}

std::string Tokenizer::TokenBytes(int32_t id, bool include_control) const {
  if (IsControl(id) && !include_control) return {};
  return state_->bytes[id];
}

std::string Tokenizer::Decode(absl::Span<const int32_t> ids, bool include_control) const {
  std::string bytes;
  for (const int32_t id : ids) bytes.append(TokenBytes(id, include_control));
  return ReplaceInvalidUtf8(bytes);
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string text;
  if (AppendValidUtf8(bytes, text) < bytes.size()) text.append(kReplacementCharacter);
  return text;
}

}  // namespace kvrelay::text
