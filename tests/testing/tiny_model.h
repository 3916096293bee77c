// A small model, of the Llama family or another, with random weights and a working tokenizer, as a GGUF file with the
// keys and tensors of a real one: tokenizer, engine and services run on it in milliseconds. It says nothing sensible;
// same options give the same bytes.
//
// Vocabulary: 0 "<|endoftext|>", 1 "<|im_start|>" (bos), 2 "<|im_end|>" (eos), 3..258 the 256 bytes, then some merges.
// Byte-level BPE ("gpt2", pre-tokenizer "smollm"), ChatML template that puts a default system turn first, no BOS added.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/model_file/tensor_type.h"
#include "tests/testing/gguf_writer.h"

namespace kvrelay::testing {

struct TinyModelOptions {
  uint64_t seed = 1;
  std::string architecture = "llama";  // or qwen2 (biases), qwen3 (head norms), smollm3 (every 4th layer unrotated)
  int layers = 2;
  int width = 64;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 16;
  int ffn_width = 128;
  int context_length = 2048;
  // Of all matrices; with Q4_1 the embedding is Q8_0, as in real files. Norms are F32.
  model_file::TensorType weight_type = model_file::TensorType::kF32;
  // Without an output matrix of its own: the embedding serves as head.
  bool tied_head = true;
};

// Matrices of `type`, with sizes that are whole blocks of it.
TinyModelOptions TinyModelOf(model_file::TensorType type);

inline constexpr int kTinyEndOfText = 0;
inline constexpr int kTinyImStart = 1;
inline constexpr int kTinyImEnd = 2;
inline constexpr int kTinyFirstByte = 3;

// The tokens in the order of their ids, and the merges that made some of them.
struct TinyVocabulary {
  std::vector<std::string> tokens;
  std::vector<std::string> merges;  // "left right"
};
const TinyVocabulary& GetTinyVocabulary();

// To be changed further, or written as it is.
GgufWriter TinyModel(const TinyModelOptions& options);
// Same, as the bytes of the file (for a MemoryFile), and written to `path` (CHECKs that it could be written).
std::string TinyModelBytes(const TinyModelOptions& options);
void WriteTinyModel(const TinyModelOptions& options, const std::string& path);

}  // namespace kvrelay::testing
