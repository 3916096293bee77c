#include "tests/golden/golden_reader.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace kvrelay::testing {
namespace {

constexpr char kMagic[] = "KVGOLD01";
constexpr size_t kMagicBytes = sizeof(kMagic) - 1;

absl::StatusOr<std::string> ReadFile(const std::string& name) {
  const char* source = std::getenv("KVRELAY_SOURCE_DIR");
  const std::string path = absl::StrCat(source == nullptr ? "." : source, "/tests/golden/data/", name);
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("no ", path, "; the scripts of tests/golden make it"));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Reads as many records as the prompt has positions, starting at byte `place`, and moves `place` past them.
absl::Status TakeRecords(const std::string& bytes, size_t& place, GoldenPrompt& prompt) {
  const size_t wanted = prompt.positions.size() * sizeof(GoldenRecord);
  if (bytes.size() - place < wanted) return absl::DataLossError("model_goldens.bin is too short");
  prompt.records.resize(prompt.positions.size());
  std::memcpy(prompt.records.data(), bytes.data() + place, wanted);
  place += wanted;
  const int length = static_cast<int>(prompt.Sequence().size());
  const bool ascending = std::is_sorted(prompt.positions.begin(), prompt.positions.end());
  if (prompt.positions.empty() || !ascending || prompt.positions.front() < 0 || prompt.positions.back() >= length) {
    return absl::DataLossError(absl::StrCat("model_goldens.json: positions of '", prompt.name, "' leave its sequence"));
  }
  return absl::OkStatus();
}

ModelGoldens Describe(const nlohmann::json& json) {
  ModelGoldens goldens;
  goldens.model_sha256 = json.at("provenance").at("model_sha256").get<std::string>();
  goldens.fixed_ids = json.at("fixed_ids").get<std::array<uint32_t, kGoldenFixed>>();
  for (const nlohmann::json& entry : json.at("prompts")) {
    GoldenPrompt& prompt = goldens.prompts.emplace_back();
    prompt.name = entry.at("name").get<std::string>();
    prompt.ids = entry.at("ids").get<std::vector<int32_t>>();
    prompt.greedy = entry.value("greedy", std::vector<int32_t>());
    prompt.positions = entry.at("positions").get<std::vector<int>>();
  }
  return goldens;
}

// Logits of a record by ascending id: the most likely ones and the fixed ones.
std::vector<float> SmallVocabulary(const GoldenRecord& record, const std::array<uint32_t, kGoldenFixed>& fixed_ids) {
  std::map<uint32_t, float> by_id;
  for (int i = 0; i < kGoldenTop; ++i) by_id[record.top_ids[i]] = record.top_logits[i];
  for (int i = 0; i < kGoldenFixed; ++i) by_id[fixed_ids[i]] = record.fixed_logits[i];
  std::vector<float> logits;
  for (const auto& [id, logit] : by_id) logits.push_back(logit);
  return logits;
}

OptionGolden DescribeCase(const nlohmann::json& json, std::vector<float> logits) {
  OptionGolden golden;
  golden.logits = std::move(logits);
  const auto take = [&json](const char* name, auto& value) { json.at(name).get_to(value); };
  take("prompt", golden.prompt);
  take("output", golden.output);
  take("repetition_penalty", golden.repetition_penalty);
  take("presence_penalty", golden.presence_penalty);
  take("frequency_penalty", golden.frequency_penalty);
  take("logit_bias", golden.bias);
  take("allowed", golden.allowed);
  take("temperature", golden.temperature);
  take("top_k", golden.top_k);
  take("top_p", golden.top_p);
  take("min_p", golden.min_p);
  take("scores", golden.scores);
  take("greedy", golden.greedy);
  take("kept", golden.kept);
  take("likely", golden.likely);
  return golden;
}

absl::StatusOr<FamilyGolden> ReadFamily(const std::filesystem::path& folder) {
  FamilyGolden golden;
  golden.name = folder.filename().string();
  golden.gguf = (folder / "model.gguf").string();
  golden.folder = (folder / "hf").string();
  std::ifstream file(folder / "goldens.json");
  try {
    const nlohmann::json json = nlohmann::json::parse(file);
    golden.ids = json.at("ids").get<std::vector<int32_t>>();
    golden.top = json.at("top").get<std::vector<int32_t>>();
    golden.positions = json.at("positions").get<std::vector<int>>();
    golden.logits = json.at("logits").get<std::vector<std::vector<float>>>();
    for (const nlohmann::json& entry : json.at("texts"))
      golden.texts.emplace_back(entry.at("text").get<std::string>(), entry.at("ids").get<std::vector<int32_t>>());
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat(golden.name, "/goldens.json: ", error.what()));
  }
  if (golden.positions.size() != golden.logits.size() || golden.top.size() != golden.ids.size())
    return absl::DataLossError(absl::StrCat(golden.name, "/goldens.json: lists of unequal length"));
  return golden;
}

}  // namespace

std::vector<int32_t> GoldenPrompt::Sequence() const {
  std::vector<int32_t> sequence = ids;
  if (!greedy.empty()) sequence.insert(sequence.end(), greedy.begin(), greedy.end() - 1);
  return sequence;
}

absl::StatusOr<ModelGoldens> LoadModelGoldens() {
  KV_ASSIGN_OR_RETURN(const std::string text, ReadFile("model_goldens.json"));
  KV_ASSIGN_OR_RETURN(const std::string bytes, ReadFile("model_goldens.bin"));
  ModelGoldens goldens;
  try {
    goldens = Describe(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat("model_goldens.json: ", error.what()));
  }
  if (bytes.compare(0, kMagicBytes, kMagic) != 0) return absl::DataLossError("model_goldens.bin lacks its magic");
  size_t place = kMagicBytes;
  for (GoldenPrompt& prompt : goldens.prompts) KV_RETURN_IF_ERROR(TakeRecords(bytes, place, prompt));
  if (place != bytes.size()) return absl::DataLossError("model_goldens.bin is longer than its description");
  return goldens;
}

absl::StatusOr<std::vector<OptionGolden>> LoadOptionGoldens() {
  KV_ASSIGN_OR_RETURN(const ModelGoldens model, LoadModelGoldens());
  KV_ASSIGN_OR_RETURN(const std::string text, ReadFile("option_goldens.json"));
  std::vector<GoldenRecord> records;
  for (const GoldenPrompt& prompt : model.prompts)
    records.insert(records.end(), prompt.records.begin(), prompt.records.end());
  std::vector<OptionGolden> goldens;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    for (const nlohmann::json& entry : json.at("cases")) {
      const GoldenRecord& record = records.at(entry.at("record").get<size_t>());
      goldens.push_back(DescribeCase(entry, SmallVocabulary(record, model.fixed_ids)));
    }
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("option_goldens.json: ", error.what()));
  }
  return goldens;
}

absl::StatusOr<std::vector<FamilyGolden>> LoadFamilyGoldens() {
  const char* build = std::getenv("KVRELAY_BINARY_DIR");
  const std::filesystem::path root = std::filesystem::path(build == nullptr ? "build" : build) / "family_models";
  std::vector<FamilyGolden> goldens;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    if (!entry.is_directory()) continue;
    KV_ASSIGN_OR_RETURN(FamilyGolden golden, ReadFamily(entry.path()));
    goldens.push_back(std::move(golden));
  }
  if (goldens.empty())
    return absl::NotFoundError(absl::StrCat("no models in ", root.string(), "; the test family_models unpacks them"));
  std::sort(goldens.begin(), goldens.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return goldens;
}

}  // namespace kvrelay::testing
