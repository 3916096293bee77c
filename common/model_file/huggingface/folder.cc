#include "common/model_file/huggingface/folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model_file/huggingface/config.h"
#include "common/model_file/huggingface/json.h"
#include "common/model_file/huggingface/safetensors.h"
#include "common/model_file/huggingface/tokenizer.h"

namespace kvrelay::model_file::huggingface {
namespace {

constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr char kWeightsFile[] = "model.safetensors";
constexpr uint64_t kMaxConfigBytes = 4 << 20;
constexpr uint64_t kMaxTokenizerBytes = 64 << 20;  // real ones have up to 35 MB
constexpr uint64_t kMaxIndexBytes = 16 << 20;
constexpr size_t kMaxShards = 1024;

class Folder {
 public:
  Folder(std::string path, std::vector<OpenFile>& files) : path_(std::move(path)), files_(files) {}

  absl::StatusOr<ModelHead> Read() {
    KV_RETURN_IF_ERROR(OpenAll());
    TokenizerFiles texts;
    KV_ASSIGN_OR_RETURN(texts.config, Object("config.json", kMaxConfigBytes));
    KV_ASSIGN_OR_RETURN(texts.tokenizer, Object("tokenizer.json", kMaxTokenizerBytes));
    KV_ASSIGN_OR_RETURN(texts.tokenizer_config, Object("tokenizer_config.json", kMaxTokenizerBytes));
    KV_ASSIGN_OR_RETURN(texts.generation_config, Object("generation_config.json", kMaxConfigBytes));
    if (const OpenFile* file = Find("chat_template.jinja"); file != nullptr) {
      KV_ASSIGN_OR_RETURN(texts.chat_template, ReadText(*file, kMaxConfigBytes));
    }
    KV_RETURN_IF_ERROR(TranslateConfig(texts.config, head_.metadata));
    head_.metadata["general.name"] = std::filesystem::weakly_canonical(path_).filename().string();
    KV_RETURN_IF_ERROR(ReadTensors());
    KV_ASSIGN_OR_RETURN(const bool ties_embeddings, TiesEmbeddings(texts.config));
    KV_RETURN_IF_ERROR(SettleHead(ties_embeddings));
    KV_ASSIGN_OR_RETURN(const uint64_t rows, Embeddings(texts.config));
    KV_RETURN_IF_ERROR(TranslateTokenizer(texts, rows, head_.metadata));
    return std::move(head_);
  }

 private:
  absl::Status OpenAll() {
    std::set<std::string> names = {"config.json", "tokenizer.json"};
    for (const char* optional : {"tokenizer_config.json", "generation_config.json", "chat_template.jinja", kIndexFile})
      if (Exists(optional)) names.insert(optional);
    if (Exists(kIndexFile)) {
      KV_RETURN_IF_ERROR(ReadIndex());
      for (const auto& [tensor, shard] : shard_of_) names.insert(shard);
    } else {
      names.insert(kWeightsFile);
    }
    for (const std::string& name : names) {
      KV_ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open(absl::StrCat(path_, "/", name), name));
      files_.push_back(std::move(file));
    }
    return absl::OkStatus();
  }

  bool Exists(const char* name) const {
    std::error_code error;
    return std::filesystem::exists(absl::StrCat(path_, "/", name), error);
  }

  absl::Status ReadIndex() {
    KV_ASSIGN_OR_RETURN(const OpenFile file, OpenFile::Open(absl::StrCat(path_, "/", kIndexFile), kIndexFile));
    KV_ASSIGN_OR_RETURN(const Json index, ReadObject(file, kMaxIndexBytes));
    const Json* map = Field(index, "weight_map");
    if (map == nullptr || !map->is_object() || map->empty())
      return absl::InvalidArgumentError(absl::StrCat(kIndexFile, ": weight_map must name the file of each tensor"));
    std::set<std::string> shards;
    for (const auto& [tensor, name] : map->items()) {
      if (!name.is_string() || !absl::EndsWith(name.get_ref<const std::string&>(), ".safetensors") ||
          name.get_ref<const std::string&>().find('/') != std::string::npos)
        return absl::InvalidArgumentError(absl::StrCat(kIndexFile, ": the file of tensor ", Quoted(tensor),
                                                       " is no .safetensors file of the folder"));
      shard_of_[tensor] = name.get<std::string>();
      shards.insert(shard_of_[tensor]);
    }
    if (shards.size() > kMaxShards)
      return absl::InvalidArgumentError(
          absl::StrCat(kIndexFile, ": ", shards.size(), " files, more than ", kMaxShards));
    return absl::OkStatus();
  }

  const OpenFile* Find(const std::string& name) const {
    const auto found = std::find_if(files_.begin(), files_.end(), [&](const OpenFile& f) { return f.name() == name; });
    return found == files_.end() ? nullptr : &*found;
  }

  absl::StatusOr<Json> Object(const char* name, uint64_t max_bytes) const {
    const OpenFile* file = Find(name);
    return file == nullptr ? absl::StatusOr<Json>(Json::object()) : ReadObject(*file, max_bytes);
  }

  absl::Status ReadTensors() {
    for (size_t part = 0; part < files_.size(); ++part) {
      if (!absl::EndsWith(files_[part].name(), ".safetensors")) continue;
      KV_ASSIGN_OR_RETURN(std::vector<TensorInfo> tensors, ReadSafetensors(files_[part], part));
      for (TensorInfo& tensor : tensors) KV_RETURN_IF_ERROR(AddTensor(files_[part].name(), std::move(tensor)));
    }
    for (const auto& [tensor, shard] : shard_of_)
      if (head_.indices.count(TranslateTensorName(tensor)) == 0)
        return absl::InvalidArgumentError(
            absl::StrCat(kIndexFile, ": tensor ", Quoted(tensor), " is not in ", Quoted(shard)));
    return absl::OkStatus();
  }

  absl::Status AddTensor(const std::string& file, TensorInfo tensor) {
    // Old files hold the angles per position that every model computes from its configuration.
    if (absl::EndsWith(tensor.name, ".rotary_emb.inv_freq")) {
      shard_of_.erase(tensor.name);
      return absl::OkStatus();
    }
    const auto listed = shard_of_.find(tensor.name);
    if (!shard_of_.empty() && (listed == shard_of_.end() || listed->second != file))
      return absl::InvalidArgumentError(
          absl::StrCat(file, " holds tensor ", Quoted(tensor.name), ", which ", kIndexFile, " does not name there"));
    tensor.name = TranslateTensorName(tensor.name);
    if (!head_.indices.try_emplace(tensor.name, head_.tensors.size()).second)
      return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), " appears twice"));
    head_.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  // A tied model has no head of its own in GGUF files, whatever its folder holds; another must have one.
  absl::Status SettleHead(bool ties_embeddings) {
    const auto found = head_.indices.find("output.weight");
    if (!ties_embeddings)
      return found != head_.indices.end() ? absl::OkStatus()
                                          : absl::InvalidArgumentError(
                                                "tensor lm_head.weight is absent, and "
                                                "tie_word_embeddings is false");
    if (found == head_.indices.end()) return absl::OkStatus();
    head_.tensors.erase(head_.tensors.begin() + static_cast<std::ptrdiff_t>(found->second));
    head_.indices.clear();
    for (size_t i = 0; i < head_.tensors.size(); ++i) head_.indices[head_.tensors[i].name] = i;
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Embeddings(const Json& config) const {
    const auto found = head_.indices.find("token_embd.weight");
    if (found == head_.indices.end()) return absl::InvalidArgumentError("tensor model.embed_tokens.weight is absent");
    const std::vector<uint64_t>& dims = head_.tensors[found->second].dims;
    KV_ASSIGN_OR_RETURN(const uint64_t named, UintOr(config, "vocab_size", "config.json", 0));
    if (dims.size() != 2 || dims[1] != named)
      return absl::InvalidArgumentError(
          absl::StrCat("tensor model.embed_tokens.weight must have two dimensions and vocab_size (", named, ") rows"));
    return named;
  }

  const std::string path_;
  std::vector<OpenFile>& files_;
  std::map<std::string, std::string> shard_of_;  // tensor -> file, of an index
  ModelHead head_;
};

}  // namespace

absl::StatusOr<ModelHead> ReadFolder(const std::string& path, std::vector<OpenFile>& files) {
  return Folder(path, files).Read();
}

}  // namespace kvrelay::model_file::huggingface
