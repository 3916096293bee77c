#include "common/model_file/huggingface/config.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace kvrelay::model_file::huggingface {
namespace {

constexpr char kFile[] = "config.json";

struct Family {
  const char* model_type;    // in config.json
  const char* class_name;    // in its list "architectures"
  const char* architecture;  // in GGUF files
  // What transformers takes where config.json says nothing; 0: nothing.
  uint64_t head_dim, sliding_window;
  double rope_theta;
  bool ties_embeddings;
};
constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", "llama", 0, 0, 10000, false},
    {"mistral", "MistralForCausalLM", "llama", 0, 4096, 10000, false},
    {"phi3", "Phi3ForCausalLM", "phi3", 0, 0, 10000, false},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", 0, 4096, 10000, false},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", 128, 4096, 10000, false},
    {"smollm3", "SmolLM3ForCausalLM", "smollm3", 0, 0, 2000000, true},
};

// Fields that are read here or elsewhere, or that say nothing about what is computed.
const std::vector<std::string>& KnownFields() {
  static const auto* const fields = new std::vector<std::string>{"architectures",
                                                                 "attention_bias",
                                                                 "attention_dropout",
                                                                 "bos_token_id",
                                                                 "chunk_size_feed_forward",
                                                                 "dtype",
                                                                 "embd_pdrop",
                                                                 "eos_token_id",
                                                                 "head_dim",
                                                                 "hidden_act",
                                                                 "hidden_size",
                                                                 "id2label",
                                                                 "initializer_range",
                                                                 "intermediate_size",
                                                                 "is_decoder",
                                                                 "is_encoder_decoder",
                                                                 "is_llama_config",
                                                                 "label2id",
                                                                 "layer_types",
                                                                 "max_position_embeddings",
                                                                 "max_window_layers",
                                                                 "mlp_bias",
                                                                 "model_type",
                                                                 "no_rope_layer_interval",
                                                                 "no_rope_layers",
                                                                 "num_attention_heads",
                                                                 "num_hidden_layers",
                                                                 "num_key_value_heads",
                                                                 "original_max_position_embeddings",
                                                                 "output_attentions",
                                                                 "output_hidden_states",
                                                                 "pad_token_id",
                                                                 "partial_rotary_factor",
                                                                 "pretraining_tp",
                                                                 "problem_type",
                                                                 "resid_pdrop",
                                                                 "return_dict",
                                                                 "rms_norm_eps",
                                                                 "rope_interleaved",
                                                                 "rope_parameters",
                                                                 "rope_scaling",
                                                                 "rope_theta",
                                                                 "sliding_window",
                                                                 "tie_word_embeddings",
                                                                 "torch_dtype",
                                                                 "transformers.js_config",
                                                                 "transformers_version",
                                                                 "unk_token_id",
                                                                 "use_cache",
                                                                 "use_sliding_window",
                                                                 "vocab_size"};
  return *fields;
}

absl::Status Unsupported(const std::string& what) { return absl::UnimplementedError(absl::StrCat(kFile, ": ", what)); }

absl::StatusOr<Family> FamilyOf(const Json& config) {
  KV_ASSIGN_OR_RETURN(const std::string type, TextOr(config, "model_type", kFile, ""));
  std::string known;
  for (const Family& family : kFamilies) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", family.model_type);
    if (type != family.model_type) continue;
    const Json* classes = Field(config, "architectures");
    if (classes != nullptr && *classes != Json::array({family.class_name}))
      return Unsupported(absl::StrCat("architectures must be [\"", family.class_name, "\"]"));
    return family;
  }
  return Unsupported(absl::StrCat("model_type ", Quoted(type), " is not supported; supported: ", known));
}

// Fields whose only supported value is known.
absl::Status CheckFixed(const Json& config) {
  for (const char* name : {"attention_bias", "mlp_bias", "is_encoder_decoder", "rope_interleaved"}) {
    KV_ASSIGN_OR_RETURN(const bool value, BoolOr(config, name, kFile, false));
    if (value) return Unsupported(absl::StrCat(name, " true is not supported"));
  }
  KV_ASSIGN_OR_RETURN(const std::string activation, TextOr(config, "hidden_act", kFile, "silu"));
  if (activation != "silu") return Unsupported(absl::StrCat("hidden_act ", Quoted(activation), "; supported is silu"));
  KV_ASSIGN_OR_RETURN(const double rotated, NumberOr(config, "partial_rotary_factor", kFile, 1));
  if (rotated != 1) return Unsupported("partial_rotary_factor must be 1");
  KV_ASSIGN_OR_RETURN(const uint64_t parts, UintOr(config, "pretraining_tp", kFile, 1));
  if (parts > 1) return Unsupported("pretraining_tp above 1 is not supported");
  return absl::OkStatus();
}

// Every fourth layer without rotary positions, as llama.cpp has SmolLM 3; transformers can have others.
absl::Status CheckUnrotatedLayers(const Json& config, const std::string& architecture, uint64_t layers) {
  const Json* list = Field(config, "no_rope_layers");
  if (list == nullptr) {
    KV_ASSIGN_OR_RETURN(const uint64_t interval, UintOr(config, "no_rope_layer_interval", kFile, 4));
    return interval == 4 ? absl::OkStatus() : Unsupported("no_rope_layer_interval must be 4");
  }
  if (architecture != "smollm3") return Unsupported("no_rope_layers is supported for model_type smollm3 only");
  bool is_every_fourth = list->is_array() && list->size() == layers;
  for (size_t i = 0; is_every_fourth && i < layers; ++i) is_every_fourth = (*list)[i] == Json((i + 1) % 4 != 0 ? 1 : 0);
  return is_every_fourth ? absl::OkStatus() : Unsupported("no_rope_layers must leave out every fourth layer");
}

// The window of layers that attend to the last positions only; 0 if there are none. Qwen has to switch it on.
absl::StatusOr<uint64_t> WindowOf(const Json& config, const Family& family) {
  const uint64_t otherwise = config.contains("sliding_window") ? 0 : family.sliding_window;  // null is none
  KV_ASSIGN_OR_RETURN(uint64_t window, UintOr(config, "sliding_window", kFile, otherwise));
  const bool has_no_switch = family.model_type == std::string("mistral") || family.model_type == std::string("phi3");
  KV_ASSIGN_OR_RETURN(const bool uses, BoolOr(config, "use_sliding_window", kFile, has_no_switch));
  if (!uses) window = 0;
  const Json* types = Field(config, "layer_types");
  if (types == nullptr) return window;
  if (!types->is_array()) return absl::InvalidArgumentError(absl::StrCat(kFile, ": layer_types must be a list"));
  for (const Json& type : *types) {
    if (type == "full_attention" || (type == "sliding_attention" && window > 0)) continue;
    return Unsupported("layer_types may hold full_attention, and sliding_attention with a sliding_window");
  }
  return window;
}

using Section = std::function<void(const char* key, MetadataValue value)>;

absl::Status TranslateScaling(const Json& rope, const std::string& type, const Section& set) {
  const std::vector<std::string> known = {"attention_factor",
                                          "beta_fast",
                                          "beta_slow",
                                          "factor",
                                          "high_freq_factor",
                                          "low_freq_factor",
                                          "original_max_position_embeddings",
                                          "partial_rotary_factor",
                                          "rope_theta",
                                          "rope_type",
                                          "truncate",
                                          "type"};
  KV_RETURN_IF_ERROR(CheckFields(rope, "config.json, rope scaling", known));
  KV_ASSIGN_OR_RETURN(const bool truncates, BoolOr(rope, "truncate", kFile, true));
  KV_ASSIGN_OR_RETURN(const double rotated, NumberOr(rope, "partial_rotary_factor", kFile, 1));
  if (!truncates || rotated != 1) return Unsupported("truncate must be true and partial_rotary_factor 1");
  set("rope.scaling.type", type);
  struct Translation {
    const char *field, *key;
  };
  for (const auto& [field, key] :
       {Translation{"factor", "rope.scaling.factor"}, Translation{"low_freq_factor", "rope.scaling.low_freq_factor"},
        Translation{"high_freq_factor", "rope.scaling.high_freq_factor"},
        Translation{"beta_fast", "rope.scaling.yarn_beta_fast"},
        Translation{"beta_slow", "rope.scaling.yarn_beta_slow"},
        Translation{"attention_factor", "rope.scaling.yarn_attn_factor"}}) {
    if (Field(rope, field) == nullptr) continue;
    KV_ASSIGN_OR_RETURN(const double value, NumberOr(rope, field, kFile, 0));
    set(key, value);
  }
  if (Field(rope, "original_max_position_embeddings") != nullptr) {
    KV_ASSIGN_OR_RETURN(const uint64_t original, UintOr(rope, "original_max_position_embeddings", kFile, 0));
    set("rope.scaling.original_context_length", original);
  }
  return absl::OkStatus();
}

// transformers 5 has all in rope_parameters, 4 has rope_theta and rope_scaling.
absl::Status TranslateRope(const Json& config, const Family& family, const Section& set) {
  const Json* rope = Field(config, "rope_parameters");
  if (rope == nullptr) rope = Field(config, "rope_scaling");
  KV_ASSIGN_OR_RETURN(double theta, NumberOr(config, "rope_theta", kFile, family.rope_theta));
  if (rope != nullptr) {
    if (!rope->is_object()) return absl::InvalidArgumentError(absl::StrCat(kFile, ": rope parameters are no object"));
    KV_ASSIGN_OR_RETURN(theta, NumberOr(*rope, "rope_theta", kFile, theta));
    KV_ASSIGN_OR_RETURN(const std::string old_type, TextOr(*rope, "type", kFile, "default"));
    KV_ASSIGN_OR_RETURN(const std::string type, TextOr(*rope, "rope_type", kFile, old_type.c_str()));
    KV_RETURN_IF_ERROR(TranslateScaling(*rope, type == "default" ? "none" : type, set));
  }
  set("rope.freq_base", theta);
  set("rope.rotates_halves", true);
  return absl::OkStatus();
}

absl::Status CheckRequired(const Json& config, const Family& family) {
  std::vector<const char*> required = {"hidden_size",         "intermediate_size", "max_position_embeddings",
                                       "num_attention_heads", "num_hidden_layers", "vocab_size"};
  // Where nothing is said, Llama and Phi have as many KV heads as heads; the others have numbers of their own.
  if (family.model_type != std::string("llama") && family.model_type != std::string("phi3"))
    required.push_back("num_key_value_heads");
  for (const char* name : required)
    if (Field(config, name) == nullptr)
      return absl::InvalidArgumentError(absl::StrCat(kFile, ": ", name, " is absent"));
  return absl::OkStatus();
}

absl::Status TranslateShape(const Json& config, const Family& family, const Section& set) {
  KV_RETURN_IF_ERROR(CheckRequired(config, family));
  if (family.head_dim > 0) set("attention.key_length", family.head_dim);
  struct Translation {
    const char *field, *key;
  };
  for (const auto& [field, key] :
       {Translation{"num_hidden_layers", "block_count"}, Translation{"hidden_size", "embedding_length"},
        Translation{"intermediate_size", "feed_forward_length"},
        Translation{"num_attention_heads", "attention.head_count"},
        Translation{"num_key_value_heads", "attention.head_count_kv"}, Translation{"head_dim", "attention.key_length"},
        Translation{"max_position_embeddings", "context_length"}, Translation{"vocab_size", "vocab_size"}}) {
    if (Field(config, field) == nullptr) continue;
    KV_ASSIGN_OR_RETURN(const uint64_t value, UintOr(config, field, kFile, 0));
    set(key, value);
  }
  KV_ASSIGN_OR_RETURN(const double epsilon, NumberOr(config, "rms_norm_eps", kFile, 1e-6));
  set("attention.layer_norm_rms_epsilon", epsilon);
  KV_ASSIGN_OR_RETURN(const uint64_t window, WindowOf(config, family));
  if (window > 0) set("attention.sliding_window", window);
  KV_ASSIGN_OR_RETURN(const uint64_t layers, UintOr(config, "num_hidden_layers", kFile, 0));
  return CheckUnrotatedLayers(config, family.architecture, layers);
}

struct Translation {
  const char *theirs, *ours;
};
constexpr Translation kTensors[] = {
    {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};
constexpr Translation kLayerTensors[] = {
    {"input_layernorm", "attn_norm"},        {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},          {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.qkv_proj", "attn_qkv"},      {"mlp.gate_up_proj", "ffn_up"},      {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},           {"mlp.up_proj", "ffn_up"},           {"mlp.down_proj", "ffn_down"},
    {"post_attention_layernorm", "ffn_norm"}};

}  // namespace

absl::Status TranslateConfig(const Json& config, Metadata& metadata) {
  KV_ASSIGN_OR_RETURN(const Family family, FamilyOf(config));
  KV_RETURN_IF_ERROR(CheckFields(config, kFile, KnownFields()));
  KV_RETURN_IF_ERROR(CheckFixed(config));
  const std::string prefix = absl::StrCat(family.architecture, ".");
  const Section set = [&](const char* key, MetadataValue value) { metadata[prefix + key] = std::move(value); };
  metadata["general.architecture"] = std::string(family.architecture);
  KV_RETURN_IF_ERROR(TranslateShape(config, family, set));
  return TranslateRope(config, family, set);
}

absl::StatusOr<bool> TiesEmbeddings(const Json& config) {
  KV_ASSIGN_OR_RETURN(const Family family, FamilyOf(config));
  return BoolOr(config, "tie_word_embeddings", kFile, family.ties_embeddings);
}

std::string TranslateTensorName(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return name;
  const std::string stem = name.substr(0, dot), kind = name.substr(dot);
  for (const auto& [theirs, ours] : kTensors)
    if (stem == theirs) return ours + kind;
  constexpr char kLayers[] = "model.layers.";
  const size_t end = stem.find('.', sizeof(kLayers) - 1);
  if (!absl::StartsWith(stem, kLayers) || end == std::string::npos) return name;
  const std::string number = stem.substr(sizeof(kLayers) - 1, end - sizeof(kLayers) + 1);
  for (const auto& [theirs, ours] : kLayerTensors)
    if (stem.substr(end + 1) == theirs) return absl::StrCat("blk.", number, ".", ours, kind);
  return name;
}

}  // namespace kvrelay::model_file::huggingface
