#include "tests/golden/golden_reader.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
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
  if (!file) return absl::NotFoundError(absl::StrCat("no ", path, "; make it with tests/golden/make_goldens.py"));
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

}  // namespace kvrelay::testing
