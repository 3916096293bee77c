// Writes the seeds of the GGUF fuzz target: make_gguf_corpus FOLDER. Sound files of every kind and a few that lie.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/testing/encode_weights.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/tiny_model.h"

namespace {

using kvrelay::model_file::TensorType;
using kvrelay::model_file::ValueType;
using kvrelay::testing::GgufWriter;

GgufWriter Metadata() {
  GgufWriter writer;
  writer.AddUint32("general.alignment", 64);
  writer.AddString("general.architecture", "llama");
  writer.AddBool("flag", true);
  writer.AddFloat64("real", 0.5);
  writer.AddInt64("integer", -1);
  writer.AddStrings("tokenizer.ggml.tokens", {"a", "", "bc"});
  writer.AddArray<float>("tokenizer.ggml.scores", ValueType::kFloat32, {0, -1});
  writer.AddArray<uint8_t>("flags", ValueType::kBool, {0, 1});
  return writer;
}

std::vector<GgufWriter> Seeds() {
  std::vector<GgufWriter> seeds(3);
  seeds[1].lies().version = 2;
  seeds[2].lies().key_count = uint64_t{1} << 60;
  seeds.push_back(Metadata());
  for (const TensorType type : kvrelay::testing::kAllTypes) {
    GgufWriter writer;
    writer.AddTensor("matrix", type, {256, 2}, std::string(kvrelay::model_file::RowBytes(type, 512), 'm'));
    writer.AddTensor("vector", TensorType::kF32, {3}, std::string(12, 'v'));
    seeds.push_back(writer);
  }
  GgufWriter overflow;
  overflow.AddTensor("matrix", TensorType::kF32, {1}, "1234", {.dims = {{uint64_t{1} << 32, uint64_t{1} << 32}}});
  seeds.push_back(overflow);
  for (const TensorType type : {TensorType::kF16, TensorType::kQ4_0, TensorType::kQ8_0}) {
    seeds.push_back(kvrelay::testing::TinyModel({.layers = 1,
                                                 .width = 32,
                                                 .heads = 2,
                                                 .kv_heads = 1,
                                                 .ffn_width = 32,
                                                 .context_length = 64,
                                                 .weight_type = type}));
  }
  return seeds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_gguf_corpus FOLDER\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  int number = 0;
  for (const GgufWriter& seed : Seeds()) {
    if (!seed.WriteTo(std::string(argv[1]) + "/seed-" + std::to_string(number++) + ".gguf")) return 1;
  }
  return 0;
}
