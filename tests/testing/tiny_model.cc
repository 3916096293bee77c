#include "tests/testing/tiny_model.h"

#include <cmath>
#include <random>

#include "common/base/check.h"
#include "tests/testing/encode_weights.h"

namespace kvrelay::testing {
namespace {

using model_file::TensorType;

constexpr char kChatTemplate[] =
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a tiny test model<|im_end|>\n' }}"
    "{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// Two UTF-8 bytes: every code point here is between U+0080 and U+07FF, or ASCII.
std::string Utf8(uint32_t code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// Byte-level BPE shows each byte as one printable character: itself if printable in Latin-1, else the next free one
// from U+0100 up.
std::vector<std::string> ByteCharacters() {
  std::vector<std::string> characters;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    characters.push_back(Utf8(printable ? byte : next++));
  }
  return characters;
}

TinyVocabulary MakeVocabulary() {
  // \u0120 is the character of the space, \u010a that of the newline.
  const std::vector<std::pair<std::string, std::string>> merges = {
      {"\u0120", "t"},  {"\u0120", "a"},   {"h", "e"},           {"i", "n"},           {"r", "e"},
      {"o", "n"},       {"e", "r"},        {"\u0120t", "he"},    {"a", "t"},           {"\u0120", "s"},
      {"e", "n"},       {"o", "u"},        {"i", "s"},           {"l", "l"},           {"in", "g"},
      {"e", "s"},       {"\u0120", "w"},   {"\u0120", "c"},      {"a", "n"},           {"o", "r"},
      {"\u0120a", "n"}, {"\u0120an", "d"}, {"\u0120", "\u0120"}, {"\u010a", "\u010a"}, {"\u0120\u0120", "\u0120\u0120"},
      {"\u0120", "i"},  {"\u0120i", "s"},  {"\u0120i", "n"},     {"h", "at"},          {"\u0120w", "hat"},
      {"t", "h"},       {"y", "ou"},       {"l", "o"},           {"ll", "o"},          {"he", "llo"},
      {"u", "s"},       {"us", "er"},      {"s", "y"},           {"s", "t"},           {"sy", "st"},
      {"e", "m"}};
  TinyVocabulary vocabulary = {.tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, .merges = {}};
  for (const std::string& character : ByteCharacters()) vocabulary.tokens.push_back(character);
  for (const auto& [left, right] : merges) {
    vocabulary.merges.push_back(left + " " + right);
    vocabulary.tokens.push_back(left + right);
  }
  return vocabulary;
}

// Uniform values of standard deviation `deviation`, from a generator that is the same everywhere.
std::vector<float> RandomValues(std::mt19937_64& random, size_t count, double deviation) {
  std::vector<float> values(count);
  for (float& value : values) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    value = static_cast<float>((2 * unit - 1) * std::sqrt(3.0) * deviation);
  }
  return values;
}

void AddMatrix(GgufWriter& writer, std::mt19937_64& random, const std::string& name, TensorType type, int outputs,
               int inputs, double gain) {
  const std::vector<float> values = RandomValues(random, size_t(outputs) * inputs, gain / std::sqrt(inputs));
  writer.AddTensor(name, type, {uint64_t(inputs), uint64_t(outputs)}, EncodeWeights(type, values));
}

void AddVector(GgufWriter& writer, std::mt19937_64& random, const std::string& name, int size, double mean) {
  std::vector<float> values = RandomValues(random, size, 0.1);
  for (float& value : values) value += static_cast<float>(mean);
  writer.AddTensor(name, TensorType::kF32, {uint64_t(size)}, EncodeWeights(TensorType::kF32, values));
}

// What the family has beside the tensors of Llama.
void AddOwnTensors(GgufWriter& writer, std::mt19937_64& random, const TinyModelOptions& options,
                   const std::string& prefix) {
  if (options.architecture == "qwen2") {
    AddVector(writer, random, prefix + "attn_q.bias", options.heads * options.head_dim, 0);
    AddVector(writer, random, prefix + "attn_k.bias", options.kv_heads * options.head_dim, 0);
    AddVector(writer, random, prefix + "attn_v.bias", options.kv_heads * options.head_dim, 0);
  }
  if (options.architecture == "qwen3") {
    AddVector(writer, random, prefix + "attn_q_norm.weight", options.head_dim, 1);
    AddVector(writer, random, prefix + "attn_k_norm.weight", options.head_dim, 1);
  }
}

void AddLayer(GgufWriter& writer, std::mt19937_64& random, const TinyModelOptions& options, int layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const TensorType type = options.weight_type;
  const int q_width = options.heads * options.head_dim;
  const int kv_width = options.kv_heads * options.head_dim;
  AddVector(writer, random, prefix + "attn_norm.weight", options.width, 1);
  AddMatrix(writer, random, prefix + "ffn_down.weight", type, options.width, options.ffn_width, 2);
  AddMatrix(writer, random, prefix + "ffn_gate.weight", type, options.ffn_width, options.width, 1);
  AddMatrix(writer, random, prefix + "ffn_up.weight", type, options.ffn_width, options.width, 1);
  AddVector(writer, random, prefix + "ffn_norm.weight", options.width, 1);
  AddMatrix(writer, random, prefix + "attn_k.weight", type, kv_width, options.width, 1.5);
  AddMatrix(writer, random, prefix + "attn_output.weight", type, options.width, q_width, 2);
  AddMatrix(writer, random, prefix + "attn_q.weight", type, q_width, options.width, 1.5);
  AddMatrix(writer, random, prefix + "attn_v.weight", type, kv_width, options.width, 1);
  AddOwnTensors(writer, random, options, prefix);
}

void AddShape(GgufWriter& writer, const TinyModelOptions& options) {
  const std::string prefix = options.architecture + ".";
  writer.AddString("general.architecture", options.architecture);
  writer.AddString("general.type", "model");
  writer.AddString("general.name", "Tiny test model");
  writer.AddUint32(prefix + "block_count", options.layers);
  writer.AddUint32(prefix + "context_length", options.context_length);
  writer.AddUint32(prefix + "embedding_length", options.width);
  writer.AddUint32(prefix + "feed_forward_length", options.ffn_width);
  writer.AddUint32(prefix + "attention.head_count", options.heads);
  writer.AddUint32(prefix + "attention.head_count_kv", options.kv_heads);
  if (options.head_dim * options.heads != options.width) {
    writer.AddUint32(prefix + "attention.key_length", options.head_dim);
    writer.AddUint32(prefix + "attention.value_length", options.head_dim);
  }
  writer.AddFloat32(prefix + "rope.freq_base", 100000.0f);
  writer.AddFloat32(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
  writer.AddUint32(prefix + "vocab_size", GetTinyVocabulary().tokens.size());
  writer.AddUint32(prefix + "rope.dimension_count", options.head_dim);
}

void AddTokenizer(GgufWriter& writer) {
  constexpr int32_t kNormal = 1;
  constexpr int32_t kControl = 3;
  const TinyVocabulary& vocabulary = GetTinyVocabulary();
  std::vector<int32_t> types(vocabulary.tokens.size(), kNormal);
  for (int id = 0; id < kTinyFirstByte; ++id) types[id] = kControl;
  writer.AddBool("tokenizer.ggml.add_space_prefix", false);
  writer.AddBool("tokenizer.ggml.add_bos_token", false);
  writer.AddString("tokenizer.ggml.model", "gpt2");
  writer.AddString("tokenizer.ggml.pre", "smollm");
  writer.AddStrings("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.AddArray("tokenizer.ggml.token_type", model_file::ValueType::kInt32, types);
  writer.AddStrings("tokenizer.ggml.merges", vocabulary.merges);
  writer.AddUint32("tokenizer.ggml.bos_token_id", kTinyImStart);
  writer.AddUint32("tokenizer.ggml.eos_token_id", kTinyImEnd);
  writer.AddUint32("tokenizer.ggml.unknown_token_id", kTinyEndOfText);
  writer.AddUint32("tokenizer.ggml.padding_token_id", kTinyImEnd);
  writer.AddString("tokenizer.chat_template", kChatTemplate);
  writer.AddUint32("general.quantization_version", 2);
}

}  // namespace

TinyModelOptions TinyModelOf(TensorType type) {
  TinyModelOptions options;
  if (model_file::BlockShapeOf(type).elements == 256) options = {.width = 256, .head_dim = 64, .ffn_width = 256};
  options.weight_type = type;
  return options;
}

const TinyVocabulary& GetTinyVocabulary() {
  static const auto* const vocabulary = new TinyVocabulary(MakeVocabulary());
  return *vocabulary;
}

GgufWriter TinyModel(const TinyModelOptions& options) {
  GgufWriter writer;
  AddShape(writer, options);
  AddTokenizer(writer);
  std::mt19937_64 random(options.seed);
  const TensorType embedding_type = options.weight_type == TensorType::kQ4_1 ? TensorType::kQ8_0 : options.weight_type;
  const int vocabulary = GetTinyVocabulary().tokens.size();
  AddMatrix(writer, random, "token_embd.weight", embedding_type, vocabulary, options.width, 2);
  for (int layer = 0; layer < options.layers; ++layer) AddLayer(writer, random, options, layer);
  AddVector(writer, random, "output_norm.weight", options.width, 1);
  if (!options.tied_head) AddMatrix(writer, random, "output.weight", embedding_type, vocabulary, options.width, 2);
  return writer;
}

std::string TinyModelBytes(const TinyModelOptions& options) { return TinyModel(options).Bytes(); }

void WriteTinyModel(const TinyModelOptions& options, const std::string& path) {
  KV_CHECK(TinyModel(options).WriteTo(path), "the test's own file can be written");
}

}  // namespace kvrelay::testing
