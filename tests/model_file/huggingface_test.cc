// Model folders: what is read from them, and a clear refusal of everything that is unsound or not known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/model_file/model_file.h"

namespace kvrelay::model_file {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

// The files of a small folder, to be changed and written.
struct Folder {
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"hidden_size", 16},
                 {"intermediate_size", 32},
                 {"num_attention_heads", 1},
                 {"num_hidden_layers", 1},
                 {"max_position_embeddings", 64},
                 {"rms_norm_eps", 1e-6},
                 {"tie_word_embeddings", true},
                 {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5000.0}}},
                 {"bos_token_id", 0},
                 {"eos_token_id", {1, 2}},
                 {"vocab_size", 4}};
  Json tokenizer = {
      {"added_tokens", {{{"id", 1}, {"content", "<end>"}, {"special", true}}, {{"id", 2}, {"content", "<stop>"}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", Json::array()}}}};
  // By file: tensors of one header, and the bytes of data that follow it.
  std::map<std::string, Json> headers = {{"model.safetensors", Json::object()}};
  std::map<std::string, size_t> data_bytes;
  std::map<std::string, std::string> other;  // name -> content

  Folder() { AddTensor("model.safetensors", "model.embed_tokens.weight", "F32", {4, 16}); }

  void AddTensor(const std::string& file, const std::string& name, const std::string& type,
                 const std::vector<uint64_t>& shape) {
    size_t bytes = type == "F32" ? 4 : 2;
    for (const uint64_t dim : shape) bytes *= dim;
    const size_t begin = data_bytes[file];
    headers[file][name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, begin + bytes}}};
    data_bytes[file] += bytes;
  }

  absl::StatusOr<std::unique_ptr<ModelFile>> Open() const {
    const std::filesystem::path root = std::filesystem::path(::testing::TempDir()) / "huggingface_test";
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
    const auto write = [&](const std::string& name, const std::string& content) {
      std::ofstream(root / name, std::ios::binary) << content;
    };
    if (!config.is_null()) write("config.json", config.dump());
    if (!tokenizer.is_null()) write("tokenizer.json", tokenizer.dump());
    for (const auto& [name, header] : headers) {
      const std::string text = header.dump();
      const uint64_t size = text.size();
      std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
      write(name, bytes + text + std::string(data_bytes.count(name) ? data_bytes.at(name) : 0, '\0'));
    }
    for (const auto& [name, content] : other) write(name, content);
    return ModelFile::Open(root.string());
  }
};

TEST(Huggingface, NamesAreThoseOfGguf) {
  Folder folder;
  folder.AddTensor("model.safetensors", "model.layers.12.self_attn.q_proj.bias", "BF16", {16});
  folder.other["tokenizer_config.json"] = R"({"eos_token": {"content": "<end>"}, "chat_template": "from config"})";
  const auto file = folder.Open();
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*(*file)->GetString("general.architecture"), "llama");
  EXPECT_EQ(*(*file)->GetUint("llama.embedding_length"), 16u);
  EXPECT_EQ(*(*file)->GetFloat("llama.rope.freq_base"), 5000.0);
  EXPECT_TRUE(*(*file)->GetBool("llama.rope.rotates_halves"));
  EXPECT_EQ((*(*file)->Find("token_embd.weight"))->dims, (std::vector<uint64_t>{16, 4}));
  EXPECT_EQ((*(*file)->Find("blk.12.attn_q.bias"))->type, TensorType::kBf16);
  EXPECT_EQ(*(*file)->GetStrings("tokenizer.ggml.tokens"), (std::vector<std::string>{"a", "<end>", "<stop>"}));
  EXPECT_EQ(*(*file)->GetInts("tokenizer.ggml.token_type"), (std::vector<int64_t>{1, 3, 4}));
  EXPECT_EQ(*(*file)->GetUint("tokenizer.ggml.eos_token_id"), 1u);
  EXPECT_EQ(*(*file)->GetUint("tokenizer.ggml.eot_token_id"), 2u);
  EXPECT_EQ(*(*file)->GetString("tokenizer.chat_template"), "from config");
  folder.other["chat_template.jinja"] = "from its own file";
  EXPECT_EQ(*(*folder.Open())->GetString("tokenizer.chat_template"), "from its own file");
}

TEST(Huggingface, EveryFileCountsInTheFingerprint) {
  Folder folder;
  const std::string first = *(*folder.Open())->Fingerprint();
  EXPECT_EQ(*(*folder.Open())->Fingerprint(), first);
  folder.other["chat_template.jinja"] = "x";
  EXPECT_NE(*(*folder.Open())->Fingerprint(), first);
}

TEST(Huggingface, OldConfigurationsSayTheSame) {
  Folder folder;
  folder.config.erase("rope_parameters");
  folder.config["rope_theta"] = 5000.0;
  folder.config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  const auto file = folder.Open();
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*(*file)->GetFloat("llama.rope.freq_base"), 5000.0);
  EXPECT_EQ(*(*file)->GetString("llama.rope.scaling.type"), "linear");
  EXPECT_EQ(*(*file)->GetFloat("llama.rope.scaling.factor"), 2.0);
}

TEST(Huggingface, ShardsAreReadByTheirIndex) {
  Folder folder;
  folder.headers.clear();
  folder.data_bytes.clear();
  folder.AddTensor("a.safetensors", "model.embed_tokens.weight", "F16", {4, 16});
  folder.AddTensor("b.safetensors", "model.norm.weight", "F16", {16});
  const auto index = [&](const Json& map) {
    folder.other["model.safetensors.index.json"] = Json{{"weight_map", map}}.dump();
    return folder.Open().status();
  };
  const Json sound = {{"model.embed_tokens.weight", "a.safetensors"}, {"model.norm.weight", "b.safetensors"}};
  EXPECT_TRUE(index(sound).ok()) << index(sound);
  const auto refused = [&](const Json& map, absl::StatusCode code, const std::string& words) {
    const absl::Status status = index(map);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  };
  Json map = sound;
  map["model.norm.weight"] = "c.safetensors";
  refused(map, absl::StatusCode::kNotFound, "c.safetensors");
  map["model.norm.weight"] = "../b.safetensors";
  refused(map, absl::StatusCode::kInvalidArgument, "no .safetensors file of the folder");
  map["model.norm.weight"] = "a.safetensors";
  refused(map, absl::StatusCode::kInvalidArgument, "'model.norm.weight' is not in 'a.safetensors'");
  map = sound;
  map["lm_head.weight"] = "b.safetensors";
  refused(map, absl::StatusCode::kInvalidArgument, "'lm_head.weight' is not in");
  map = {{"model.embed_tokens.weight", "a.safetensors"}, {"other", "b.safetensors"}};
  refused(map, absl::StatusCode::kInvalidArgument, "does not name there");
  refused(Json::array(), absl::StatusCode::kInvalidArgument, "weight_map");
}

struct Refusal {
  std::string words;
  std::function<void(Folder&)> change;
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
constexpr char kWeights[] = "model.safetensors", kEmbedding[] = "model.embed_tokens.weight";

void ExpectAllRefused(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    Folder folder;
    refusal.change(folder);
    const absl::Status status = folder.Open().status();
    EXPECT_EQ(status.code(), refusal.code) << refusal.words << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(refusal.words));
    EXPECT_LT(status.message().size(), 2000u) << "a file does not choose the size of our messages";
  }
}

TEST(Huggingface, RefusesUnknownConfigurations) {
  const auto set = [](const char* name, const Json& value) { return [=](Folder& f) { f.config[name] = value; }; };
  const auto rope = [](const char* name, const Json& value) {
    return [=](Folder& f) { f.config["rope_parameters"][name] = value; };
  };
  ExpectAllRefused({
      {"model_type 'mamba'", set("model_type", "mamba"), kUnimplemented},
      {"LlamaForCausalLM", set("architectures", {"LlamaForTokenClassification"}), kUnimplemented},
      {"'final_logit_softcapping'", set("final_logit_softcapping", 30), kUnimplemented},
      {"'quantization_config'", set("quantization_config", {{"bits", 4}}), kUnimplemented},
      {"attention_bias", set("attention_bias", true), kUnimplemented},
      {"hidden_act 'gelu'", set("hidden_act", "gelu"), kUnimplemented},
      {"layer_types", set("layer_types", {"chunked_attention"}), kUnimplemented},
      {"no_rope_layers", set("no_rope_layers", {0}), kUnimplemented},
      {"'mscale'", rope("mscale", 1.0), kUnimplemented},
      {"truncate", rope("truncate", false), kUnimplemented},
      {"hidden_size must be", set("hidden_size", -1)},
      {"hidden_size must be", set("hidden_size", "16")},
      {"hidden_size is absent", set("hidden_size", nullptr)},
      {"vocab_size (5)", set("vocab_size", 5)},
      {"lm_head.weight is absent", set("tie_word_embeddings", false)},
      {"config.json", [](Folder& f) { f.config = nullptr; }, absl::StatusCode::kNotFound},
      {"it is not JSON", [](Folder& f) { f.other["config.json"] = "{\"a\": "; }},
      {"it is not an object", [](Folder& f) { f.other["config.json"] = "[]"; }},
      {"occurs twice", [](Folder& f) { f.other["config.json"] = R"({"a": 1, "a": 2})"; }},
      {"it is not JSON", [](Folder& f) { f.other["config.json"] = std::string(1 << 20, '['); }},
      {"nests deeper",
       [](Folder& f) {
         f.other["config.json"] = absl::StrCat("{\"a\":", std::string(100, '['), std::string(100, ']'), "}");
       }},
  });
}

TEST(Huggingface, RefusesUnknownTokenizers) {
  const auto set = [](const char* name, const Json& value) { return [=](Folder& f) { f.tokenizer[name] = value; }; };
  const auto model = [](const char* name, const Json& value) {
    return [=](Folder& f) { f.tokenizer["model"][name] = value; };
  };
  ExpectAllRefused({
      {"tokenizer.json", [](Folder& f) { f.tokenizer = nullptr; }, absl::StatusCode::kNotFound},
      {"Whitespace", set("pre_tokenizer", {{"type", "Whitespace"}}), kUnimplemented},
      {"Lowercase", set("normalizer", {{"type", "Lowercase"}}), kUnimplemented},
      {"BertProcessing", set("post_processor", {{"type", "BertProcessing"}}), kUnimplemented},
      {"lstrip", set("added_tokens", {{{"id", 1}, {"content", "x"}, {"lstrip", true}}}), kUnimplemented},
      {"no id below 4", set("added_tokens", {{{"id", 4}, {"content", "x"}}})},
      {"no id below 4", set("added_tokens", {{{"id", 1e18}, {"content", "x"}}})},
      {"id 0 is both", set("added_tokens", {{{"id", 0}, {"content", "x"}}})},
      {"Unigram", model("type", "Unigram"), kUnimplemented},
      {"'cache_capacity'", model("cache_capacity", 1), kUnimplemented},
      {"end_of_word_suffix", model("end_of_word_suffix", "</w>"), kUnimplemented},
      {"model.vocab", model("vocab", Json::array())},
      {"a merge is not two tokens", model("merges", {{"a", "b", "c"}})},
      {"4 end tokens",
       [](Folder& f) {
         f.config["eos_token_id"] = {0, 1, 2, 3};
       },
       kUnimplemented},
  });
}

TEST(Huggingface, RefusesLyingTensorFiles) {
  const auto entry = [](const char* name, const Json& value) {
    return [=](Folder& f) { f.headers[kWeights][kEmbedding][name] = value; };
  };
  const auto raw = [](const std::string& bytes) { return [=](Folder& f) { f.other[kWeights] = bytes; }; };
  const auto length = [](uint64_t claimed) {
    return std::string(reinterpret_cast<const char*>(&claimed), sizeof(claimed)) + "{}";
  };
  ExpectAllRefused({
      {"model.safetensors", [](Folder& f) { f.headers.clear(); }, absl::StatusCode::kNotFound},
      {"truncated", raw("")},
      {"truncated", raw("1234567")},
      {"the header claims 3 bytes", raw(length(3))},
      {"the header claims", raw(length(~uint64_t{0}))},
      {"the header claims", raw(length(uint64_t{17} << 20) + std::string(17 << 20, ' '))},
      {"it is not JSON", raw(length(1))},
      {"'I64'", entry("dtype", "I64"), kUnimplemented},
      {"shape", entry("shape", nullptr)},
      {"shape", entry("shape", {1, 1, 1, 1, 64})},
      {"shape", entry("shape", {-4, 16})},
      {"a dimension is zero", entry("shape", {0, 16})},
      {"overflows", entry("shape", {uint64_t{1} << 40, uint64_t{1} << 40})},
      {"are not the 252 bytes", entry("shape", {63})},
      {"data_offsets", entry("data_offsets", {256, 0})},
      {"data_offsets", entry("data_offsets", {0})},
      {"leaves the file", entry("data_offsets", {4, 260})},
      {"leaves the file", entry("data_offsets", {~uint64_t{0} - 256, ~uint64_t{0}})},
      {"overlap",
       [](Folder& f) {
         f.AddTensor(kWeights, "model.norm.weight", "F32", {16});
         f.headers[kWeights]["model.norm.weight"]["data_offsets"] = {64, 128};
       }},
      {"occurs twice", raw([] {
         const std::string header =
             R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
         const uint64_t size = header.size();
         return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header + "1234";
       }())},
  });
}

}  // namespace
}  // namespace kvrelay::model_file
