// Files that lie, are cut or are damaged. One test per lie: a clear error that names the entry, never a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <string>

#include "common/model_file/model_file.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/memory_file.h"
#include "tests/testing/tiny_model.h"

namespace kvrelay::model_file {
namespace {

using kvrelay::testing::GgufString;
using kvrelay::testing::GgufWriter;
using kvrelay::testing::MemoryFile;
using ::testing::HasSubstr;

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kStringType = static_cast<uint32_t>(ValueType::kString);

absl::Status OpenBytes(const std::string& bytes) {
  const MemoryFile memory(bytes);
  return ModelFile::Open(memory.path()).status();
}

// The file is refused with this code and words.
void ExpectRefused(const std::string& bytes, const std::string& words,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const absl::Status status = OpenBytes(bytes);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  EXPECT_THAT(std::string(status.message()), HasSubstr("model file /proc/self/fd/"));
}

template <typename T>
std::string Number(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

GgufWriter OneTensor(const kvrelay::testing::GgufTensorLies& lies = {}, TensorType type = TensorType::kF32) {
  GgufWriter writer;
  writer.AddUint32("key", 7);
  writer.AddTensor("weight", type, {32, 2}, std::string(RowBytes(type, 64), 'w'), lies);
  return writer;
}

TEST(GgufHostile, TheHonestOneIsAccepted) { EXPECT_TRUE(OpenBytes(OneTensor().Bytes()).ok()); }

TEST(GgufHostile, EmptyFile) { ExpectRefused("", "truncated"); }

TEST(GgufHostile, Magic) {
  GgufWriter writer = OneTensor();
  writer.lies().magic = "GGML";
  ExpectRefused(writer.Bytes(), "not a GGUF file: it starts with 'GGML'");
  writer.lies().magic = std::string("\xff\x00\n\x01", 4);
  ExpectRefused(writer.Bytes(), "\\xff\\x00\\n\\x01");
}

TEST(GgufHostile, Version) {
  GgufWriter writer = OneTensor();
  for (const uint32_t version : {0u, 1u, 4u, 0xffffffffu}) {
    writer.lies().version = version;
    ExpectRefused(writer.Bytes(), "GGUF version " + std::to_string(version), absl::StatusCode::kUnimplemented);
  }
  writer.lies().version = 0x03000000;
  ExpectRefused(writer.Bytes(), "big-endian", absl::StatusCode::kUnimplemented);
}

TEST(GgufHostile, KeyCount) {
  GgufWriter writer = OneTensor();
  writer.lies().key_count = kHuge;
  ExpectRefused(writer.Bytes(), "keys exceed the limit of 65536");
  writer.lies().key_count = 60000;
  ExpectRefused(writer.Bytes(), "60000 keys cannot fit");
  // The entry of the tensor is then taken for a key, and what follows makes no sense.
  writer.lies().key_count = 2;
  ExpectRefused(writer.Bytes(), "claims");
}

TEST(GgufHostile, TensorCount) {
  GgufWriter writer = OneTensor();
  writer.lies().tensor_count = kHuge;
  ExpectRefused(writer.Bytes(), "tensors exceed the limit of 65536");
  writer.lies().tensor_count = 60000;
  ExpectRefused(writer.Bytes(), "60000 tensors cannot fit");
  writer.lies().tensor_count = 2;
  ExpectRefused(writer.Bytes(), "tensor entry 1");
}

TEST(GgufHostile, KeyLength) {
  for (const uint64_t length : {kHuge, kHuge / 2, uint64_t{1} << 40, uint64_t{1000}}) {
    GgufWriter writer;
    writer.lies().key_count = 1;
    ExpectRefused(writer.Head().substr(0, 24) + Number(length) + std::string(40, 'k'), "metadata 0: a string claims");
  }
  GgufWriter long_key;
  long_key.AddUint8(std::string(65536, 'k'), 1);
  ExpectRefused(long_key.Bytes(), "exceeds its limit of 65535");
  GgufWriter empty_key;
  empty_key.AddUint8("", 1);
  ExpectRefused(empty_key.Bytes(), "an empty key");
}

TEST(GgufHostile, DuplicateKey) {
  GgufWriter writer;
  writer.AddUint32("same", 1);
  writer.AddString("same", "2");
  ExpectRefused(writer.Bytes(), "key 'same' appears twice");
}

TEST(GgufHostile, ValueType) {
  for (const uint32_t type : {13u, 255u, 0xffffffffu}) {
    GgufWriter writer;
    writer.AddRaw("odd", type, std::string(16, '\1'));
    ExpectRefused(writer.Bytes(), "key 'odd': unknown value type " + std::to_string(type));
  }
}

TEST(GgufHostile, BoolValue) {
  GgufWriter writer;
  writer.AddRaw("flag", static_cast<uint32_t>(ValueType::kBool), "\2");
  ExpectRefused(writer.Bytes(), "key 'flag': a bool must be 0 or 1, not 2");
  GgufWriter array;
  array.AddArray<uint8_t>("flags", ValueType::kBool, {0, 1, 255});
  ExpectRefused(array.Bytes(), "key 'flags': a bool in an array must be 0 or 1");
}

TEST(GgufHostile, StringValueLength) {
  GgufWriter writer;
  writer.AddRaw("text", kStringType, Number(kHuge) + "abc");
  ExpectRefused(writer.Bytes(), "key 'text': a string claims 18446744073709551615 bytes");
}

TEST(GgufHostile, ArrayCount) {
  for (const uint64_t count : {kHuge, uint64_t{1} << 61, uint64_t{1} << 33, uint64_t{1} << 20}) {
    GgufWriter numbers;
    numbers.AddRawArray("numbers", static_cast<uint32_t>(ValueType::kUint64), count, std::string(64, '\1'));
    ExpectRefused(numbers.Bytes(), "key 'numbers': " + std::to_string(count) + " array elements");
    GgufWriter strings;
    strings.AddRawArray("strings", kStringType, count, std::string(64, '\0'));
    ExpectRefused(strings.Bytes(), "key 'strings': " + std::to_string(count) + " strings");
  }
}

TEST(GgufHostile, StringInsideAnArray) {
  GgufWriter writer;
  writer.AddRawArray("tokens", kStringType, 3, GgufString("a") + Number(kHuge));
  ExpectRefused(writer.Bytes(), "key 'tokens': a string claims");
}

TEST(GgufHostile, ArrayElementType) {
  GgufWriter writer;
  writer.AddRawArray("odd", 99, 1, std::string(8, '\0'));
  ExpectRefused(writer.Bytes(), "key 'odd': unknown array element type 99");
}

TEST(GgufHostile, NestedArrays) {
  GgufWriter writer;
  std::string nested;
  for (int depth = 0; depth < 1000; ++depth) nested += Number(uint32_t{9}) + Number(uint64_t{1});
  writer.AddRawArray("deep", static_cast<uint32_t>(ValueType::kArray), 1, nested);
  ExpectRefused(writer.Bytes(), "key 'deep': arrays of arrays");
}

TEST(GgufHostile, Alignment) {
  for (const uint32_t alignment : {0u, 3u, 33u, 0xffffffffu}) {
    GgufWriter writer = OneTensor();
    writer.AddUint32("general.alignment", alignment);
    ExpectRefused(writer.Bytes(), "general.alignment must be");
  }
  GgufWriter wide = OneTensor();
  wide.AddUint64("general.alignment", uint64_t{1} << 63);
  ExpectRefused(wide.Bytes(), "general.alignment must be");
  GgufWriter text = OneTensor();
  text.AddString("general.alignment", "32");
  ExpectRefused(text.Bytes(), "general.alignment must be");
  GgufWriter large = OneTensor();
  large.AddUint32("general.alignment", 1u << 31);
  ExpectRefused(large.Bytes(), "leaves the file");
}

TEST(GgufHostile, TensorName) {
  GgufWriter empty;
  empty.AddTensor("", TensorType::kF32, {1}, "1234");
  ExpectRefused(empty.Bytes(), "a tensor without a name");
  GgufWriter twice;
  twice.AddTensor("same", TensorType::kF32, {1}, "1234");
  twice.AddTensor("same", TensorType::kF32, {1}, "1234");
  ExpectRefused(twice.Bytes(), "tensor 'same' appears twice");
  GgufWriter longest;
  longest.AddTensor(std::string(64, 'n'), TensorType::kF32, {1}, "1234");
  EXPECT_TRUE(OpenBytes(longest.Bytes()).ok());
  GgufWriter too_long;
  too_long.AddTensor(std::string(65, 'n'), TensorType::kF32, {1}, "1234");
  ExpectRefused(too_long.Bytes(), "exceeds its limit of 64");
  // What the file calls itself cannot break the message.
  GgufWriter strange;
  strange.AddTensor("\xff\xfe\n", TensorType::kF32, {1}, "1234", {.offset = 1});
  ExpectRefused(strange.Bytes(), "tensor '\\xff\\xfe\\n'");
}

TEST(GgufHostile, DimensionCount) {
  for (const uint32_t count : {0u, 5u, 1000u, 0xffffffffu}) {
    ExpectRefused(OneTensor({.dim_count = count}).Bytes(), "tensor 'weight': " + std::to_string(count) + " dimensions");
  }
}

TEST(GgufHostile, ZeroDimension) {
  ExpectRefused(OneTensor({.dims = {{32, 0}}}).Bytes(), "tensor 'weight': dimension 1 is zero");
  ExpectRefused(OneTensor({.dims = {{0, 2}}}).Bytes(), "tensor 'weight': dimension 0 is zero");
}

TEST(GgufHostile, DimensionProductOverflow) {
  const std::vector<std::vector<uint64_t>> overflowing = {{uint64_t{1} << 32, uint64_t{1} << 32},  // product 2^64 = 0
                                                          {uint64_t{1} << 62},  // elements fit, bytes are 2^64
                                                          {uint64_t{1} << 62, 1, 1, 1},
                                                          {32, uint64_t{1} << 59},
                                                          {(uint64_t{1} << 62) + 1},  // wraps to 4 bytes
                                                          {65536, 65536, 65536, 65536}};
  for (const auto& dims : overflowing) {
    ExpectRefused(OneTensor({.dims = dims}).Bytes(), "tensor 'weight': the product of its dimensions overflows");
  }
  ExpectRefused(OneTensor({.dims = {{kHuge / 32 * 32, kHuge}}}, TensorType::kQ4_1).Bytes(), "overflows");
}

TEST(GgufHostile, LargerThanTheFile) {
  ExpectRefused(OneTensor({.dims = {{32, 1 << 20}}}).Bytes(), "tensor 'weight' leaves the file");
  ExpectRefused(OneTensor({.dims = {{uint64_t{1} << 61}}}).Bytes(), "tensor 'weight' leaves the file");
  ExpectRefused(OneTensor({.dims = {{32, 3}}}).Bytes(), "tensor 'weight' leaves the file");
}

TEST(GgufHostile, RowsThatAreNoWholeBlocks) {
  ExpectRefused(OneTensor({.dims = {{33, 2}}}, TensorType::kQ4_1).Bytes(),
                "rows of 33 elements are no whole blocks of 32");
  ExpectRefused(OneTensor({.dims = {{16, 4}}}, TensorType::kQ8_0).Bytes(),
                "rows of 16 elements are no whole blocks of 32");
  ExpectRefused(OneTensor({.dims = {{128, 2}}, .type = 12}).Bytes(), "rows of 128 elements are no whole blocks of 256");
  ExpectRefused(OneTensor({.dims = {{288, 2}}, .type = 14}).Bytes(), "rows of 288 elements are no whole blocks of 256");
}

TEST(GgufHostile, ElementType) {
  for (const uint32_t type : {4u, 5u, 9u, 10u, 11u, 15u, 31u, 255u, 0xffffffffu}) {
    ExpectRefused(OneTensor({.type = type}).Bytes(),
                  "tensor 'weight': element type " + std::to_string(type) +
                      " is not supported; supported are F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K",
                  absl::StatusCode::kUnimplemented);
  }
}

TEST(GgufHostile, Offset) {
  for (const uint64_t offset : {1u, 16u, 31u}) {
    ExpectRefused(OneTensor({.offset = offset}).Bytes(), "is no multiple of the alignment 32");
  }
  // Just outside, far outside, and such that start + offset + bytes wraps around.
  for (const uint64_t offset : {uint64_t{32}, uint64_t{1} << 40, uint64_t{1} << 63, kHuge - 31}) {
    ExpectRefused(OneTensor({.offset = offset}).Bytes(), "tensor 'weight' leaves the file");
  }
}

TEST(GgufHostile, Overlap) {
  GgufWriter writer;
  writer.AddTensor("first", TensorType::kF32, {16}, std::string(64, '1'));
  writer.AddTensor("second", TensorType::kF32, {16}, std::string(64, '2'), {.offset = 32});
  ExpectRefused(writer.Bytes(), "tensors 'first' and 'second' overlap");
  GgufWriter same;
  same.AddTensor("first", TensorType::kF32, {16}, std::string(64, '1'));
  same.AddTensor("second", TensorType::kF32, {16}, std::string(64, '2'), {.offset = 0});
  ExpectRefused(same.Bytes(), "overlap");
}

GgufWriter SmallOfEverything() {
  GgufWriter writer;
  writer.AddString("general.architecture", "llama");
  writer.AddUint32("general.alignment", 32);
  writer.AddBool("flag", true);
  writer.AddFloat32("real", 1.5f);
  writer.AddStrings("tokens", {"a", "bc", ""});
  writer.AddArray<int32_t>("types", ValueType::kInt32, {1, 3, 1});
  writer.AddTensor("one", TensorType::kF32, {8}, std::string(32, '1'));
  writer.AddTensor("two", TensorType::kQ4_1, {32, 2}, std::string(40, '2'));
  return writer;
}

TEST(GgufHostile, CutAnywhere) {
  const std::string bytes = SmallOfEverything().Bytes();
  // The padding after the last tensor may be absent, every other byte is needed.
  const size_t needed = SmallOfEverything().Head().size() + 32 + 40;
  for (size_t length = 0; length < needed; ++length) {
    const absl::Status status = OpenBytes(bytes.substr(0, length));
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << length << ": " << status;
  }
  for (size_t length = needed; length <= bytes.size(); ++length) ASSERT_TRUE(OpenBytes(bytes.substr(0, length)).ok());
}

// A file that opens must also be readable everywhere it says.
void UseEverything(const ModelFile& file) {
  for (const TensorInfo& tensor : file.tensors()) {
    std::byte last;
    ASSERT_GE(tensor.bytes, 1u);
    ASSERT_TRUE(file.Read(tensor, tensor.bytes - 1, absl::MakeSpan(&last, 1)).ok());
  }
}

void FlipBits(const std::string& bytes, size_t head_bytes, int rounds, uint64_t seed) {
  std::mt19937_64 random(seed);
  MemoryFile memory("");
  for (int round = 0; round < rounds; ++round) {
    std::string damaged = bytes;
    const int flips = 1 + random() % 4;
    for (int i = 0; i < flips; ++i) damaged[random() % head_bytes] ^= static_cast<char>(1 << random() % 8);
    memory.Rewrite(damaged);
    const auto file = ModelFile::Open(memory.path());
    if (file.ok()) {
      UseEverything(**file);
      continue;
    }
    const absl::StatusCode code = file.status().code();
    ASSERT_TRUE(code == absl::StatusCode::kInvalidArgument || code == absl::StatusCode::kUnimplemented)
        << file.status();
  }
}

TEST(GgufHostile, FlippedBits) { FlipBits(SmallOfEverything().Bytes(), SmallOfEverything().Head().size(), 10000, 1); }

TEST(GgufHostile, FlippedBitsInAModel) {
  const GgufWriter model =
      kvrelay::testing::TinyModel({.layers = 1, .width = 32, .heads = 2, .kv_heads = 1, .ffn_width = 32});
  FlipBits(model.Bytes(), model.Head().size(), 2000, 2);
}

// Whole numbers overwritten with the values that break arithmetic.
TEST(GgufHostile, OverwrittenNumbers) {
  const std::string bytes = SmallOfEverything().Bytes();
  MemoryFile memory("");
  for (size_t place = 0; place + 8 <= SmallOfEverything().Head().size(); ++place) {
    for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{0x7fffffff}, uint64_t{0xffffffff},
                                 uint64_t{1} << 32, uint64_t{1} << 62, uint64_t{1} << 63, kHuge - 31, kHuge}) {
      std::string damaged = bytes;
      damaged.replace(place, 8, Number(value));
      memory.Rewrite(damaged);
      const auto file = ModelFile::Open(memory.path());
      if (file.ok()) UseEverything(**file);
    }
  }
}

}  // namespace
}  // namespace kvrelay::model_file
