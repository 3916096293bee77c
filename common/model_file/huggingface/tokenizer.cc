#include "common/model_file/huggingface/tokenizer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace kvrelay::model_file::huggingface {
namespace {

constexpr char kTokenizerFile[] = "tokenizer.json";
constexpr char kVisibleSpace[] = "\u2581";

// Names of token_type in GGUF files.
constexpr int32_t kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5;

constexpr char kLlama3Pattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2Pattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

absl::Status Unknown(const char* part, const Json& what) {
  return absl::UnimplementedError(absl::StrCat(kTokenizerFile, ": ", part, " ",
                                               what.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 300),
                                               " is not known"));
}

Json Part(const Json& object, const char* name) {
  const Json* field = Field(object, name);
  return field == nullptr ? Json() : *field;
}

NumberArray Int32s(const std::vector<int32_t>& values) {
  NumberArray array = {.type = ValueType::kInt32, .bytes = std::vector<std::byte>(values.size() * sizeof(int32_t))};
  std::copy_n(reinterpret_cast<const std::byte*>(values.data()), array.bytes.size(), array.bytes.data());
  return array;
}

// A step of a pre-tokenizer with those of its fields that change what it does.
Json Step(const Json& step) {
  Json kept = {{"type", Part(step, "type")}};
  for (const char* field : {"add_prefix_space", "behavior", "individual_digits", "invert", "pattern", "use_regex"})
    kept[field] = Part(step, field);
  return kept;
}

// The name by which GGUF files call a byte-level pre-tokenizer with these steps.
absl::StatusOr<std::string> NameOfPattern(const Json& tokenizer, bool ignores_merges) {
  const Json cut = Part(tokenizer, "pre_tokenizer"), normalizer = Part(tokenizer, "normalizer");
  const bool composes = Part(normalizer, "type") == "NFC";
  if (!normalizer.is_null() && !composes) return Unknown("normalizer", normalizer);
  Json steps = Json::array();
  for (const Json& step : Part(cut, "type") == "Sequence" ? Part(cut, "pretokenizers") : Json::array({cut}))
    steps.push_back(Step(step));
  const auto bytes = [](bool use_regex) {
    return Step({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}});
  };
  const auto split = [&](const char* pattern) {
    const Json regex = {{"Regex", pattern}};
    const Json step = {{"type", "Split"}, {"pattern", regex}, {"behavior", "Isolated"}, {"invert", false}};
    return Json::array({Step(step), bytes(false)});
  };
  const Json digits = Step({{"type", "Digits"}, {"individual_digits", true}});
  if (steps == split(kLlama3Pattern) && !composes) return ignores_merges ? "llama-bpe" : "smaug-bpe";
  if (ignores_merges) return Unknown("model.ignore_merges", true);
  if (steps == split(kQwen2Pattern) && composes) return "qwen2";
  if (steps == Json::array({digits, bytes(true)}) && !composes) return "smollm";
  if (steps == Json::array({bytes(true)}) && !composes) return "gpt-2";
  return Unknown("pre_tokenizer", cut);
}

// Where a SentencePiece vocabulary puts a space: the values of tokenizer.space_prefix.
absl::StatusOr<std::string> SpacePrefixOf(const Json& tokenizer) {
  const Json cut = Part(tokenizer, "pre_tokenizer"), normalizer = Part(tokenizer, "normalizer");
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kVisibleSpace}};
  const Json prepend = {{"type", "Prepend"}, {"prepend", kVisibleSpace}};
  if (cut.is_null()) {
    if (normalizer == Json{{"type", "Sequence"}, {"normalizers", Json::array({prepend, replace})}}) return "every";
    if (normalizer == replace) return "none";
    return Unknown("normalizer", normalizer);
  }
  if (!normalizer.is_null()) return Unknown("normalizer", normalizer);
  if (Part(cut, "type") != "Metaspace" || Part(cut, "replacement") != kVisibleSpace || Part(cut, "split") != false)
    return Unknown("pre_tokenizer", cut);
  const Json scheme = Part(cut, "prepend_scheme");
  if (scheme == "first") return "first_unspaced";
  if (scheme == "always") return "every_unspaced";
  if (scheme == "never") return "none";
  return Unknown("pre_tokenizer", cut);
}

struct Tokens {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
};

absl::Status PutToken(const std::string& text, const Json& id, int32_t type, uint64_t limit, Tokens& tokens) {
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= limit)
    return absl::InvalidArgumentError(absl::StrCat(kTokenizerFile, ": token ", Quoted(text), " has no id below ", limit,
                                                   ", the number of embeddings"));
  const size_t place = id.get<uint64_t>();
  if (place >= tokens.texts.size()) {
    tokens.texts.resize(place + 1);
    tokens.types.resize(place + 1, kUnused);
  }
  if (tokens.types[place] != kUnused && tokens.texts[place] != text)
    return absl::InvalidArgumentError(
        absl::StrCat(kTokenizerFile, ": id ", place, " is both ", Quoted(tokens.texts[place]), " and ", Quoted(text)));
  tokens.texts[place] = text;
  tokens.types[place] = type;
  return absl::OkStatus();
}

absl::StatusOr<Tokens> ReadTokens(const Json& tokenizer, const Json& model, uint64_t limit) {
  Tokens tokens;
  const Json* vocabulary = Field(model, "vocab");
  if (vocabulary == nullptr || !vocabulary->is_object())
    return absl::InvalidArgumentError(absl::StrCat(kTokenizerFile, ": model.vocab must be an object"));
  for (const auto& [text, id] : vocabulary->items()) KV_RETURN_IF_ERROR(PutToken(text, id, kNormal, limit, tokens));
  for (const Json& added : Part(tokenizer, "added_tokens")) {
    if (!added.is_object()) return absl::InvalidArgumentError(absl::StrCat(kTokenizerFile, ": added_tokens"));
    for (const char* option : {"single_word", "lstrip", "rstrip"}) {
      KV_ASSIGN_OR_RETURN(const bool value, BoolOr(added, option, kTokenizerFile, false));
      if (value) return Unknown(option, added);
    }
    KV_ASSIGN_OR_RETURN(const bool special, BoolOr(added, "special", kTokenizerFile, false));
    KV_ASSIGN_OR_RETURN(const std::string text, TextOr(added, "content", kTokenizerFile, ""));
    KV_RETURN_IF_ERROR(PutToken(text, Part(added, "id"), special ? kControl : kUserDefined, limit, tokens));
  }
  for (size_t id = 0; id < tokens.texts.size(); ++id)
    if (tokens.types[id] == kUnused) tokens.texts[id] = absl::StrCat("[PAD", id, "]");
  return tokens;
}

// Either "left right" or ["left", "right"].
absl::StatusOr<Strings> ReadMerges(const Json& model) {
  Strings merges;
  for (const Json& merge : Part(model, "merges")) {
    if (merge.is_string()) {
      merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges.push_back(
          absl::StrCat(merge[0].get_ref<const std::string&>(), " ", merge[1].get_ref<const std::string&>()));
    } else {
      return absl::InvalidArgumentError(absl::StrCat(kTokenizerFile, ": a merge is not two tokens"));
    }
  }
  return merges;
}

// The one token that the post-processor puts before a text; null if there is none.
absl::StatusOr<Json> BosOf(const Json& post_processor) {
  const Json type = Part(post_processor, "type");
  if (post_processor.is_null() || type == "ByteLevel") return Json();
  if (type == "Sequence") {
    Json bos;
    for (const Json& step : Part(post_processor, "processors")) {
      KV_ASSIGN_OR_RETURN(const Json found, BosOf(step));
      if (!found.is_null()) bos = found;
    }
    return bos;
  }
  const Json single = Part(post_processor, "single");
  if (type != "TemplateProcessing" || !single.is_array() || single.empty() || single.size() > 2 ||
      !single.back().is_object() || !single.back().contains("Sequence"))
    return Unknown("post_processor", post_processor);
  if (single.size() == 1) return Json();
  const Json name = Part(Part(single[0], "SpecialToken"), "id");
  const Json ids = name.is_string()
                       ? Part(Part(Part(post_processor, "special_tokens"), name.get<std::string>().c_str()), "ids")
                       : Json();
  if (!ids.is_array() || ids.size() != 1) return Unknown("post_processor", post_processor);
  return ids[0];
}

// tokenizer_config.json names a token by its text, or by an object that holds it.
Json IdOfNamed(const Json& tokenizer_config, const char* name, const Tokens& tokens) {
  Json text = Part(tokenizer_config, name);
  if (text.is_object()) text = Part(text, "content");
  if (!text.is_string()) return Json();
  const auto found = std::find(tokens.texts.begin(), tokens.texts.end(), text.get<std::string>());
  return found == tokens.texts.end() ? Json() : Json(uint64_t(found - tokens.texts.begin()));
}

absl::Status SetId(const char* key, const Json& id, Metadata& metadata) {
  if (!id.is_number_unsigned()) return absl::InvalidArgumentError(absl::StrCat(key, " must be a token id"));
  metadata[key] = id.get<uint64_t>();
  return absl::OkStatus();
}

absl::Status TranslateBos(const TokenizerFiles& files, const Tokens& tokens, Metadata& metadata) {
  KV_ASSIGN_OR_RETURN(const Json prefix, BosOf(Part(files.tokenizer, "post_processor")));
  Json bos = IdOfNamed(files.tokenizer_config, "bos_token", tokens);
  if (!prefix.is_null() && !bos.is_null() && prefix != bos)
    return absl::UnimplementedError(absl::StrCat(kTokenizerFile, ": texts begin with token ", prefix.dump(),
                                                 ", which is not the bos_token of tokenizer_config.json"));
  if (bos.is_null()) bos = prefix;
  metadata["tokenizer.ggml.add_bos_token"] = !prefix.is_null();
  return bos.is_null() ? absl::OkStatus() : SetId("tokenizer.ggml.bos_token_id", bos, metadata);
}

// The token that ends a turn first, then all others that generation_config.json and config.json name.
absl::Status TranslateEnds(const TokenizerFiles& files, const Tokens& tokens, Metadata& metadata) {
  std::vector<Json> ends;
  const auto add = [&](const Json& id) {
    if (!id.is_null() && std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  };
  add(IdOfNamed(files.tokenizer_config, "eos_token", tokens));
  for (const Json* config : {&files.generation_config, &files.config}) {
    const Json named = Part(*config, "eos_token_id");
    if (!named.is_array()) add(named);
    if (named.is_array())
      for (const Json& id : named) add(id);
  }
  constexpr const char* kKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                   "tokenizer.ggml.eom_token_id"};
  if (ends.size() > std::size(kKeys))
    return absl::UnimplementedError(
        absl::StrCat("the folder names ", ends.size(), " end tokens; at most 3 are supported"));
  for (size_t i = 0; i < ends.size(); ++i) KV_RETURN_IF_ERROR(SetId(kKeys[i], ends[i], metadata));
  return absl::OkStatus();
}

absl::Status TranslateChatTemplate(const TokenizerFiles& files, Metadata& metadata) {
  Json text = Part(files.tokenizer_config, "chat_template");
  if (text.is_array()) {  // several by name
    Json chosen;
    for (const Json& each : text)
      if (each.is_object() && Part(each, "name") == "default") chosen = Part(each, "template");
    text = chosen;
  }
  if (files.chat_template.has_value()) text = *files.chat_template;
  if (text.is_null()) return absl::OkStatus();
  if (!text.is_string()) return absl::InvalidArgumentError("tokenizer_config.json: chat_template must be a string");
  metadata["tokenizer.chat_template"] = text.get<std::string>();
  return absl::OkStatus();
}

absl::Status TranslateKind(const Json& tokenizer, const Json& model, Metadata& metadata) {
  const std::vector<std::string> known = {"type",          "dropout",      "unk_token", "continuing_subword_prefix",
                                          "fuse_unk",      "vocab",        "merges",    "end_of_word_suffix",
                                          "byte_fallback", "ignore_merges"};
  KV_RETURN_IF_ERROR(CheckFields(model, "tokenizer.json, model", known));
  // Files from before this field have none.
  if (!Part(model, "type").is_null() && Part(model, "type") != "BPE") return Unknown("model.type", Part(model, "type"));
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const Json part = Part(model, name); !part.is_null() && part != "") return Unknown(name, part);
  KV_ASSIGN_OR_RETURN(const bool has_bytes, BoolOr(model, "byte_fallback", kTokenizerFile, false));
  KV_ASSIGN_OR_RETURN(const bool ignores_merges, BoolOr(model, "ignore_merges", kTokenizerFile, false));
  if (!has_bytes) {
    metadata["tokenizer.ggml.model"] = std::string("gpt2");
    KV_ASSIGN_OR_RETURN(std::string name, NameOfPattern(tokenizer, ignores_merges));
    metadata["tokenizer.ggml.pre"] = std::move(name);
    return absl::OkStatus();
  }
  if (ignores_merges) return Unknown("model.ignore_merges with byte_fallback", true);
  metadata["tokenizer.ggml.model"] = std::string("llama");
  KV_ASSIGN_OR_RETURN(std::string prefix, SpacePrefixOf(tokenizer));
  metadata["tokenizer.space_prefix"] = std::move(prefix);
  return absl::OkStatus();
}

}  // namespace

absl::Status TranslateTokenizer(const TokenizerFiles& files, uint64_t embeddings, Metadata& metadata) {
  const Json* model = Field(files.tokenizer, "model");
  if (model == nullptr || !model->is_object())
    return absl::InvalidArgumentError(absl::StrCat(kTokenizerFile, ": model must be an object"));
  KV_RETURN_IF_ERROR(TranslateKind(files.tokenizer, *model, metadata));
  KV_ASSIGN_OR_RETURN(Tokens tokens, ReadTokens(files.tokenizer, *model, embeddings));
  KV_ASSIGN_OR_RETURN(Strings merges, ReadMerges(*model));
  KV_RETURN_IF_ERROR(TranslateBos(files, tokens, metadata));
  KV_RETURN_IF_ERROR(TranslateEnds(files, tokens, metadata));
  KV_RETURN_IF_ERROR(TranslateChatTemplate(files, metadata));
  metadata["tokenizer.ggml.tokens"] = std::move(tokens.texts);
  metadata["tokenizer.ggml.token_type"] = Int32s(tokens.types);
  metadata["tokenizer.ggml.merges"] = std::move(merges);
  return absl::OkStatus();
}

}  // namespace kvrelay::model_file::huggingface
