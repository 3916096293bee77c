#include "common/text/vocabulary.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/sentencepiece.h"
#include "common/text/utf8.h"

namespace kvrelay::text {
namespace {

// Bounds the search automaton over added tokens, which takes many times their size.
constexpr size_t kMaxAddedTokenBytes = 1 << 20;

// As many as a model may have embeddings.
constexpr size_t kMaxTokens = 1 << 22;

// Names of token_type in GGUF files. 1 (normal), 5 (unused) and 6 (byte) need nothing special.
constexpr int64_t kTypeUnknown = 2, kTypeControl = 3, kTypeUserDefined = 4, kTypeLast = 6;

struct PreTokenizerName {
  std::string_view name;
  PreTokenizer pre_tokenizer;
  bool ignores_merges;
  bool adds_bos;  // where the file does not say
};
constexpr PreTokenizerName kPreTokenizers[] = {
    {"gpt-2", PreTokenizer::kGpt2, false, false},
    {"phi-2", PreTokenizer::kGpt2, false, false},
    {"smollm", PreTokenizer::kSmollm, false, false},
    {"starcoder", PreTokenizer::kSmollm, false, false},
    {"refact", PreTokenizer::kSmollm, false, false},
    {"llama-bpe", PreTokenizer::kLlama3, true, true},
    {"llama-v3", PreTokenizer::kLlama3, true, true},
    {"llama3", PreTokenizer::kLlama3, true, true},
    {"smaug-bpe", PreTokenizer::kLlama3, false, false},
    {"qwen2", PreTokenizer::kQwen2, false, false},
    {"deepseek-r1-qwen", PreTokenizer::kQwen2, false, false},
};

// Ends of a turn by name, for files whose metadata names only one of several.
constexpr std::string_view kEndNames[] = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>"};

std::string Quoted(std::string_view token) {
  return absl::StrCat("\"", absl::CHexEscape(std::string(token.substr(0, 64))), "\"");
}

absl::StatusOr<bool> GetBoolOr(const model_file::ModelFile& file, std::string_view key, bool otherwise) {
  return file.Has(key) ? file.GetBool(key) : absl::StatusOr<bool>(otherwise);
}

// Of model folders, which say it more exactly than GGUF files.
absl::StatusOr<SpacePrefix> NamedSpacePrefix(const model_file::ModelFile& file) {
  KV_ASSIGN_OR_RETURN(const std::string name, file.GetString("tokenizer.space_prefix"));
  if (name == "none") return SpacePrefix::kNone;
  if (name == "every") return SpacePrefix::kEvery;
  if (name == "every_unspaced") return SpacePrefix::kEveryUnspaced;
  if (name == "first_unspaced") return SpacePrefix::kFirstUnspaced;
  return absl::UnimplementedError(absl::StrCat("tokenizer.space_prefix is ", Quoted(name)));
}

absl::Status ReadSentencePieceKind(const model_file::ModelFile& file, Vocabulary& vocabulary) {
  vocabulary.pre_tokenizer = PreTokenizer::kSentencePiece;
  vocabulary.adds_bos = true;
  KV_ASSIGN_OR_RETURN(const bool prefix, GetBoolOr(file, "tokenizer.ggml.add_space_prefix", true));
  vocabulary.space_prefix = prefix ? SpacePrefix::kEvery : SpacePrefix::kNone;
  if (file.Has("tokenizer.space_prefix")) {
    KV_ASSIGN_OR_RETURN(vocabulary.space_prefix, NamedSpacePrefix(file));
  }
  KV_ASSIGN_OR_RETURN(const bool trims, GetBoolOr(file, "tokenizer.ggml.remove_extra_whitespaces", false));
  if (trims || file.Has("tokenizer.ggml.precompiled_charsmap")) {
    return absl::UnimplementedError(
        "SentencePiece normalization (tokenizer.ggml.remove_extra_whitespaces, precompiled_charsmap) is not supported");
  }
  return absl::OkStatus();
}

absl::Status CheckKind(const model_file::ModelFile& file, Vocabulary& vocabulary) {
  KV_ASSIGN_OR_RETURN(const std::string model, file.GetString("tokenizer.ggml.model"));
  if (model == "llama") return ReadSentencePieceKind(file, vocabulary);
  if (model != "gpt2") {
    return absl::UnimplementedError(absl::StrCat("tokenizer model ", Quoted(model),
                                                 " is not supported; supported are gpt2 (byte-level BPE) and llama "
                                                 "(SentencePiece BPE)"));
  }
  if (!file.Has("tokenizer.ggml.pre")) {
    return absl::UnimplementedError("the file names no pre-tokenizer (tokenizer.ggml.pre); convert the model anew");
  }
  KV_ASSIGN_OR_RETURN(const std::string pre, file.GetString("tokenizer.ggml.pre"));
  for (const PreTokenizerName& known : kPreTokenizers) {
    if (known.name != pre) continue;
    vocabulary.pre_tokenizer = known.pre_tokenizer;
    vocabulary.ignores_merges = known.ignores_merges;
    vocabulary.adds_bos = known.adds_bos;
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat("pre-tokenizer ", Quoted(pre), " is not supported"));
}

absl::StatusOr<TokenKind> KindOf(int64_t type, uint32_t id) {
  if (type < 0 || type > kTypeLast) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.token_type[", id, "] is ", type, ", beyond 0 to 6"));
  }
  if (type == kTypeControl || type == kTypeUnknown) return TokenKind::kControl;
  return type == kTypeUserDefined ? TokenKind::kUserDefined : TokenKind::kPlain;
}

// Per-token lists are as long as the file's list of tokens, which padding may have made longer.
absl::Status CheckEntries(const char* key, size_t entries, const Vocabulary& vocabulary) {
  if (entries == vocabulary.named_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, " has ", entries, " entries for ", vocabulary.named_tokens, " tokens"));
}

absl::Status ReadKinds(const model_file::ModelFile& file, Vocabulary& vocabulary) {
  const size_t size = vocabulary.tokens.size();
  vocabulary.kinds.assign(size, TokenKind::kPlain);
  if (!file.Has("tokenizer.ggml.token_type")) return absl::OkStatus();
  KV_ASSIGN_OR_RETURN(const std::vector<int64_t> types, file.GetInts("tokenizer.ggml.token_type"));
  KV_RETURN_IF_ERROR(CheckEntries("tokenizer.ggml.token_type", types.size(), vocabulary));
  size_t added_bytes = 0;
  for (uint32_t id = 0; id < types.size(); ++id) {
    KV_ASSIGN_OR_RETURN(vocabulary.kinds[id], KindOf(types[id], id));
    if (vocabulary.kinds[id] == TokenKind::kPlain) continue;
    if (vocabulary.tokens[id].empty()) {
      return absl::InvalidArgumentError(absl::StrCat("added token ", id, " is empty"));
    }
    added_bytes += vocabulary.tokens[id].size();
  }
  if (added_bytes > kMaxAddedTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("added tokens take ", added_bytes, " bytes, more than ", kMaxAddedTokenBytes));
  }
  return absl::OkStatus();
}

// A model may have more embeddings than tokens: those ids get names that no text becomes.
absl::Status PadTokens(const model_file::ModelFile& file, Vocabulary& vocabulary) {
  const auto embedding = file.Find("token_embd.weight");
  if (!embedding.ok() || (*embedding)->dims.size() != 2) return absl::OkStatus();  // a vocabulary alone
  const uint64_t rows = (*embedding)->dims[1];
  if (vocabulary.tokens.size() > rows || rows > kMaxTokens) {
    return absl::InvalidArgumentError(absl::StrCat(vocabulary.tokens.size(), " tokens for ", rows,
                                                   " embeddings; must be at most that many, and ", kMaxTokens,
                                                   " in all"));
  }
  for (uint64_t id = vocabulary.tokens.size(); id < rows; ++id)
    vocabulary.tokens.push_back(absl::StrCat("[PAD", id, "]"));
  return absl::OkStatus();
}

absl::StatusOr<TokenIds> ReadTokens(const model_file::ModelFile& file, Vocabulary& vocabulary) {
  KV_ASSIGN_OR_RETURN(vocabulary.tokens, file.GetStrings("tokenizer.ggml.tokens"));
  if (vocabulary.tokens.empty() || vocabulary.tokens.size() > kMaxTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer.ggml.tokens has ", vocabulary.tokens.size(), " entries, must be 1 to ", kMaxTokens));
  }
  vocabulary.named_tokens = vocabulary.tokens.size();
  KV_RETURN_IF_ERROR(PadTokens(file, vocabulary));
  const size_t size = vocabulary.tokens.size();
  TokenIds ids;
  ids.reserve(size);
  for (uint32_t id = 0; id < size; ++id) {
    const auto [at, is_new] = ids.emplace(vocabulary.tokens[id], id);
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens ", at->second, " and ", id, " are both ", Quoted(vocabulary.tokens[id])));
    }
  }
  return ids;
}

absl::Status ReadScores(const model_file::ModelFile& file, const TokenIds& ids, Vocabulary& vocabulary) {
  KV_ASSIGN_OR_RETURN(std::vector<double> scores, file.GetFloats("tokenizer.ggml.scores"));
  KV_RETURN_IF_ERROR(CheckEntries("tokenizer.ggml.scores", scores.size(), vocabulary));
  scores.resize(vocabulary.tokens.size());
  return MergesFromScores(ids, scores, vocabulary);
}

absl::Status ReadMerges(const model_file::ModelFile& file, const TokenIds& ids, Vocabulary& vocabulary) {
  if (vocabulary.pre_tokenizer == PreTokenizer::kSentencePiece) {
    KV_RETURN_IF_ERROR(CheckByteTokens(ids));
    if (!file.Has("tokenizer.ggml.merges")) return ReadScores(file, ids, vocabulary);
  }
  KV_ASSIGN_OR_RETURN(const std::vector<std::string> merges, file.GetStrings("tokenizer.ggml.merges"));
  vocabulary.merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const std::string_view merge = merges[i];
    const auto error = [&](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.merges[", i, "] ", Quoted(merge), " ", what));
    };
    const size_t space = merge.find(' ');
    if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos) {
      return error("is not two tokens with a space between them");
    }
    const std::string joined = std::string(merge.substr(0, space)).append(merge.substr(space + 1));
    uint32_t found[3];
    const std::string_view names[3] = {merge.substr(0, space), merge.substr(space + 1), joined};
    for (int part = 0; part < 3; ++part) {
      const auto at = ids.find(names[part]);
      if (at == ids.end()) return error(absl::StrCat("needs ", Quoted(names[part]), ", which is no token"));
      if (vocabulary.kinds[at->second] == TokenKind::kControl) {
        return error(absl::StrCat("would make or use the control token ", Quoted(names[part])));
      }
      found[part] = at->second;
    }
    vocabulary.merges.push_back({found[0], found[1]});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int32_t>> ReadTokenId(const model_file::ModelFile& file, std::string_view key,
                                                   size_t vocabulary_size) {
  if (!file.Has(key)) return std::nullopt;
  KV_ASSIGN_OR_RETURN(const uint64_t id, file.GetUint(key));
  if (id >= vocabulary_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(key), " is ", id, ", but there are ", vocabulary_size, " tokens"));
  }
  return static_cast<int32_t>(id);
}

absl::Status ReadSpecialIds(const model_file::ModelFile& file, const TokenIds& ids, Vocabulary& vocabulary) {
  const size_t size = vocabulary.tokens.size();
  KV_ASSIGN_OR_RETURN(vocabulary.bos_id, ReadTokenId(file, "tokenizer.ggml.bos_token_id", size));
  KV_ASSIGN_OR_RETURN(vocabulary.eos_id, ReadTokenId(file, "tokenizer.ggml.eos_token_id", size));
  KV_ASSIGN_OR_RETURN(const std::optional<int32_t> eot, ReadTokenId(file, "tokenizer.ggml.eot_token_id", size));
  KV_ASSIGN_OR_RETURN(const std::optional<int32_t> eom, ReadTokenId(file, "tokenizer.ggml.eom_token_id", size));
  const auto add_end = [&](int32_t id) {
    std::vector<int32_t>& ends = vocabulary.end_ids;
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  };
  if (vocabulary.eos_id.has_value()) add_end(*vocabulary.eos_id);
  if (eot.has_value()) add_end(*eot);
  if (eom.has_value()) add_end(*eom);
  for (const std::string_view name : kEndNames) {
    const auto at = ids.find(name);
    if (at != ids.end() && vocabulary.kinds[at->second] == TokenKind::kControl) add_end(at->second);
  }

  // Files of Llama 2 and 3 often leave the key out; their tokenizers add BOS.
  KV_ASSIGN_OR_RETURN(vocabulary.adds_bos, GetBoolOr(file, "tokenizer.ggml.add_bos_token",
                                                     vocabulary.adds_bos && vocabulary.bos_id.has_value()));
  if (vocabulary.adds_bos && !vocabulary.bos_id.has_value()) {
    return absl::InvalidArgumentError("tokenizer.ggml.add_bos_token is true, but the file names no BOS token");
  }
  return absl::OkStatus();
}

// Bytes of the characters of the byte alphabet, all below U+0144: what is printable in Latin-1 stands for itself, the
// other bytes in their order for the characters from U+0100.
constexpr int kAlphabetEnd = 0x144;
std::array<int16_t, kAlphabetEnd> MakeAlphabet() {
  std::array<int16_t, kAlphabetEnd> bytes;
  bytes.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    bytes[is_printable ? byte : next++] = static_cast<int16_t>(byte);
  }
  return bytes;
}

absl::StatusOr<Vocabulary> ReadChecked(const model_file::ModelFile& file) {
  Vocabulary vocabulary;
  KV_RETURN_IF_ERROR(CheckKind(file, vocabulary));
  KV_ASSIGN_OR_RETURN(const TokenIds ids, ReadTokens(file, vocabulary));
  KV_RETURN_IF_ERROR(ReadKinds(file, vocabulary));
  KV_RETURN_IF_ERROR(ReadMerges(file, ids, vocabulary));
  KV_RETURN_IF_ERROR(ReadSpecialIds(file, ids, vocabulary));
  if (file.Has("tokenizer.chat_template")) {
    KV_ASSIGN_OR_RETURN(vocabulary.chat_template, file.GetString("tokenizer.chat_template"));
  }
  return vocabulary;
}

// What is not spelled in the byte alphabet stands for itself.
std::string BytesOfPlainToken(std::string_view token) {
  static const std::array<int16_t, kAlphabetEnd> kAlphabet = MakeAlphabet();
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const Utf8Part part = NextUtf8Part(token.substr(at));
    const uint8_t first = static_cast<uint8_t>(token[at]);
    int code = -1;
    if (part.kind == Utf8Part::kCharacter && part.size == 1) code = first;
    if (part.kind == Utf8Part::kCharacter && part.size == 2) code = (first & 0x1f) << 6 | (token[at + 1] & 0x3f);
    if (code < 0 || code >= kAlphabetEnd || kAlphabet[code] < 0) return std::string(token);
    bytes.push_back(static_cast<char>(kAlphabet[code]));
    at += part.size;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<Vocabulary> ReadVocabulary(const model_file::ModelFile& file) {
  absl::StatusOr<Vocabulary> vocabulary = ReadChecked(file);
  // The file is there; what it lacks makes it unsound.
  if (absl::IsNotFound(vocabulary.status())) return absl::InvalidArgumentError(vocabulary.status().message());
  return vocabulary;
}

std::string BytesOfToken(const Vocabulary& vocabulary, size_t id) {
  const std::string& token = vocabulary.tokens[id];
  if (vocabulary.kinds[id] != TokenKind::kPlain) return token;
  return vocabulary.pre_tokenizer == PreTokenizer::kSentencePiece ? BytesOfPiece(token) : BytesOfPlainToken(token);
}

}  // namespace kvrelay::text
