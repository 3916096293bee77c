// The reader on the default model: facts known from an independent reader (the gguf Python package).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "common/model_file/model_file.h"

namespace kvrelay::model_file {
namespace {

using ::testing::ElementsAre;

class RealModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("KVRELAY_MODEL");
    ASSERT_NE(path, nullptr) << "KVRELAY_MODEL must name SmolLM2-135M-Instruct.Q4_1.gguf";
    auto file = ModelFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }
  std::unique_ptr<ModelFile> file_;
};

TEST_F(RealModel, Metadata) {
  EXPECT_EQ(*file_->GetString("general.architecture"), "llama");
  EXPECT_EQ(*file_->GetString("general.name"), "Smollm2 135M 8k Lc100K Mix1 Ep2");
  EXPECT_EQ(*file_->GetUint("llama.block_count"), 30u);
  EXPECT_EQ(*file_->GetUint("llama.embedding_length"), 576u);
  EXPECT_EQ(*file_->GetUint("llama.context_length"), 8192u);
  EXPECT_EQ(*file_->GetFloat("llama.rope.freq_base"), 100000.0);
  EXPECT_EQ(*file_->GetFloat("llama.attention.layer_norm_rms_epsilon"), double{1e-5f});
  EXPECT_FALSE(*file_->GetBool("tokenizer.ggml.add_bos_token"));
  EXPECT_EQ(*file_->GetString("tokenizer.ggml.pre"), "smollm");
  const std::vector<std::string> tokens = *file_->GetStrings("tokenizer.ggml.tokens");
  ASSERT_EQ(tokens.size(), 49152u);
  EXPECT_EQ(tokens[1], "<|im_start|>");
  EXPECT_EQ(tokens[2], "<|im_end|>");
  EXPECT_EQ(file_->GetStrings("tokenizer.ggml.merges")->size(), 48900u);
  const std::vector<int64_t> types = *file_->GetInts("tokenizer.ggml.token_type");
  ASSERT_EQ(types.size(), 49152u);
  EXPECT_EQ(types[16], 3);
  EXPECT_EQ(types[17], 1);
  EXPECT_THAT(*file_->GetStrings("general.languages"), ElementsAre("en"));
}

TEST_F(RealModel, Tensors) {
  EXPECT_EQ(file_->size_bytes(), 98362432u);
  ASSERT_EQ(file_->tensors().size(), 272u);
  std::map<TensorType, std::pair<int, uint64_t>> by_type;
  for (const TensorInfo& tensor : file_->tensors()) {
    by_type[tensor.type].first += 1;
    by_type[tensor.type].second += tensor.bytes;
  }
  EXPECT_EQ(by_type[TensorType::kQ4_1], std::make_pair(210, uint64_t{66355200}));
  EXPECT_EQ(by_type[TensorType::kQ8_0], std::make_pair(1, uint64_t{30081024}));
  EXPECT_EQ(by_type[TensorType::kF32], std::make_pair(61, uint64_t{140544}));
  EXPECT_EQ(by_type.size(), 3u);
  const TensorInfo* embedding = *file_->Find("token_embd.weight");
  EXPECT_EQ(embedding->offset, 1785664u);
  EXPECT_THAT(embedding->dims, ElementsAre(576, 49152));
  const TensorInfo* down = *file_->Find("blk.0.ffn_down.weight");
  EXPECT_THAT(down->dims, ElementsAre(1536, 576));
  EXPECT_EQ(down->offset, 31868992u);
  EXPECT_EQ(file_->Find("output.weight").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RealModel, Fingerprint) {
  EXPECT_EQ(*file_->Fingerprint(), "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
}

// Sums over dequantized rows, from gguf.quants.dequantize of the gguf package (float32 values, summed in float64).
TEST_F(RealModel, DequantizedValues) {
  struct Expected {
    const char* name;
    uint64_t row;
    double first, sum, sum_squares;
  };
  const Expected expected[] = {
      {"token_embd.weight", 0, -0.10654449462890625, -2.2541093826293945, 8.595294896863379},
      {"token_embd.weight", 49151, 0.011505126953125, -0.4662208557128906, 15.193982947952463},
      {"blk.0.attn_q.weight", 5, 0.076171875, -3.731201171875, 66.46614653617144},
      {"blk.29.ffn_down.weight", 575, -0.22918701171875, -5.229949951171875, 53.54396239947528},
      {"output_norm.weight", 0, 1.7578125, 1038.33203125, 1921.7355499267578}};
  for (const Expected& e : expected) {
    const TensorInfo* tensor = *file_->Find(e.name);
    const size_t row_bytes = RowBytes(tensor->type, tensor->dims[0]);
    std::vector<std::byte> row(row_bytes);
    std::vector<float> values(tensor->dims[0]);
    ASSERT_TRUE(file_->Read(*tensor, e.row * row_bytes, absl::MakeSpan(row)).ok());
    DequantizeRow(tensor->type, row, absl::MakeSpan(values));
    double sum = 0;
    double sum_squares = 0;
    for (const float value : values) {
      sum += value;
      sum_squares += double{value} * value;
    }
    EXPECT_EQ(values[0], static_cast<float>(e.first)) << e.name;
    EXPECT_NEAR(sum, e.sum, 1e-9) << e.name;
    EXPECT_NEAR(sum_squares, e.sum_squares, 1e-9) << e.name;
  }
}

}  // namespace
}  // namespace kvrelay::model_file
