#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <string>
#include <vector>

#include "common/model_file/model_file.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/memory_file.h"

namespace kvrelay::model_file {
namespace {

using kvrelay::testing::GgufWriter;
using kvrelay::testing::MemoryFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<ModelFile> OpenWriter(const GgufWriter& writer) {
  const MemoryFile memory(writer.Bytes());
  absl::StatusOr<std::unique_ptr<ModelFile>> file = ModelFile::Open(memory.path());
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *std::move(file) : nullptr;
}

GgufWriter AllValueTypes() {
  GgufWriter writer;
  writer.AddUint8("u8", 200);
  writer.AddInt8("i8", -100);
  writer.AddUint16("u16", 60000);
  writer.AddInt16("i16", -30000);
  writer.AddUint32("u32", 4000000000u);
  writer.AddInt32("i32", -2000000000);
  writer.AddUint64("u64", std::numeric_limits<uint64_t>::max());
  writer.AddInt64("i64", std::numeric_limits<int64_t>::min());
  writer.AddInt64("i64+", 5);
  writer.AddFloat32("f32", 0.1f);
  writer.AddFloat64("f64", 1e300);
  writer.AddBool("yes", true);
  writer.AddBool("no", false);
  writer.AddString("text", std::string("a\0b \xff", 5));
  writer.AddString("empty", "");
  writer.AddStrings("texts", {"one", "", "three"});
  writer.AddStrings("no texts", {});
  writer.AddArray<uint8_t>("u8s", ValueType::kUint8, {0, 255});
  writer.AddArray<int32_t>("i32s", ValueType::kInt32, {-1, 0, 2147483647});
  writer.AddArray<uint64_t>("u64s", ValueType::kUint64, {1, std::numeric_limits<uint64_t>::max()});
  writer.AddArray<float>("f32s", ValueType::kFloat32, {0.5f, -2});
  writer.AddArray<double>("f64s", ValueType::kFloat64, {1e-300});
  writer.AddArray<uint8_t>("bools", ValueType::kBool, {1, 0});
  return writer;
}

TEST(Gguf, MetadataOfEveryType) {
  for (const uint32_t version : {2u, 3u}) {
    GgufWriter writer = AllValueTypes();
    writer.lies().version = version;
    const std::unique_ptr<ModelFile> file = OpenWriter(writer);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(*file->GetUint("u8"), 200u);
    EXPECT_EQ(*file->GetUint("u16"), 60000u);
    EXPECT_EQ(*file->GetUint("u32"), 4000000000u);
    EXPECT_EQ(*file->GetUint("u64"), std::numeric_limits<uint64_t>::max());
    EXPECT_EQ(*file->GetUint("i64+"), 5u);
    EXPECT_EQ(*file->GetFloat("f32"), double{0.1f});
    EXPECT_EQ(*file->GetFloat("f64"), 1e300);
    EXPECT_TRUE(*file->GetBool("yes"));
    EXPECT_FALSE(*file->GetBool("no"));
    EXPECT_EQ(*file->GetString("text"), std::string("a\0b \xff", 5));
    EXPECT_EQ(*file->GetString("empty"), "");
    EXPECT_THAT(*file->GetStrings("texts"), ElementsAre("one", "", "three"));
    EXPECT_THAT(*file->GetStrings("no texts"), ElementsAre());
    EXPECT_THAT(*file->GetInts("u8s"), ElementsAre(0, 255));
    EXPECT_THAT(*file->GetInts("i32s"), ElementsAre(-1, 0, 2147483647));
    EXPECT_THAT(*file->GetFloats("f32s"), ElementsAre(0.5, -2));
    EXPECT_THAT(*file->GetFloats("f64s"), ElementsAre(1e-300));
    EXPECT_TRUE(file->Has("bools"));
    EXPECT_FALSE(file->Has("Bools"));
    EXPECT_TRUE(file->tensors().empty());
  }
}

TEST(Gguf, WrongTypesAndAbsentKeys) {
  const std::unique_ptr<ModelFile> file = OpenWriter(AllValueTypes());
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->GetUint("absent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(file->GetUint("absent").status().message()), HasSubstr("'absent'"));
  EXPECT_EQ(file->GetStrings("absent").status().code(), absl::StatusCode::kNotFound);
  const absl::Status wrong[] = {
      file->GetUint("i8").status(),      file->GetUint("i64").status(),     file->GetUint("f32").status(),
      file->GetUint("yes").status(),     file->GetFloat("u8").status(),     file->GetBool("u8").status(),
      file->GetString("texts").status(), file->GetStrings("text").status(), file->GetStrings("u8s").status(),
      file->GetInts("f32s").status(),    file->GetInts("u64s").status(),    file->GetInts("bools").status(),
      file->GetInts("u8").status(),      file->GetFloats("i32s").status(),  file->GetFloats("texts").status()};
  for (const absl::Status& status : wrong) EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(Gguf, Tensors) {
  for (const uint64_t alignment : {1u, 32u, 4096u}) {
    GgufWriter writer;
    if (alignment != 32) writer.AddUint32("general.alignment", alignment);
    writer.SetAlignment(alignment);
    writer.AddTensor("a", TensorType::kF32, {3}, std::string("abcdefghijkl"));
    writer.AddTensor("b", TensorType::kQ8_0, {32, 2}, std::string(67, 'x') + "y");
    writer.AddTensor("c", TensorType::kF16, {1, 2, 3, 4}, std::string(48, 'z'));
    const std::unique_ptr<ModelFile> file = OpenWriter(writer);
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(file->tensors().size(), 3u);
    EXPECT_EQ(file->size_bytes(), writer.Bytes().size());
    const TensorInfo* a = *file->Find("a");
    const TensorInfo* b = *file->Find("b");
    EXPECT_EQ(a->offset, writer.Head().size());
    EXPECT_EQ(a->bytes, 12u);
    EXPECT_THAT(b->dims, ElementsAre(32, 2));
    EXPECT_EQ(b->type, TensorType::kQ8_0);
    EXPECT_EQ(b->bytes, 68u);
    EXPECT_EQ((*file->Find("c"))->bytes, 48u);
    char bytes[4];
    ASSERT_TRUE(file->Read(*a, 8, absl::MakeSpan(reinterpret_cast<std::byte*>(bytes), 4)).ok());
    EXPECT_EQ(std::string(bytes, 4), "ijkl");
    ASSERT_TRUE(file->Read(*b, 66, absl::MakeSpan(reinterpret_cast<std::byte*>(bytes), 2)).ok());
    EXPECT_EQ(std::string(bytes, 2), "xy");
    ASSERT_TRUE(file->Read(*b, 68, {}).ok());
    EXPECT_EQ(file->Find("d").status().code(), absl::StatusCode::kNotFound);
  }
}

// Offsets need not follow the order of the entries, gaps between tensors are fine.
TEST(Gguf, TensorsOutOfOrderWithGaps) {
  GgufWriter writer;
  writer.AddTensor("late", TensorType::kF32, {8}, std::string(32, '1'), {.offset = 96});
  writer.AddTensor("early", TensorType::kF32, {8}, std::string(128, '2'), {.offset = 0});
  const std::unique_ptr<ModelFile> file = OpenWriter(writer);
  ASSERT_NE(file, nullptr);
  EXPECT_GT((*file->Find("late"))->offset, (*file->Find("early"))->offset);
}

TEST(GgufDeathTest, ReadOutsideATensorIsOurMistake) {
  GgufWriter writer;
  writer.AddTensor("a", TensorType::kF32, {3}, std::string(12, 'a'));
  const std::unique_ptr<ModelFile> file = OpenWriter(writer);
  std::byte bytes[8];
  const TensorInfo& tensor = file->tensors()[0];
  EXPECT_DEATH((void)file->Read(tensor, 8, absl::MakeSpan(bytes)), "inside a tensor");
  EXPECT_DEATH((void)file->Read(tensor, 13, {}), "inside a tensor");
  EXPECT_DEATH((void)file->Read(tensor, std::numeric_limits<uint64_t>::max(), absl::MakeSpan(bytes)),
               "inside a tensor");
}

TEST(Gguf, Fingerprint) {
  const std::unique_ptr<ModelFile> empty = OpenWriter(GgufWriter());
  ASSERT_NE(empty, nullptr);
  // sha256sum of "GGUF\3\0\0\0" and 24 zero bytes (two counts, padding).
  EXPECT_EQ(*empty->Fingerprint(), "a3718c7940c34ff91a906d0758debb656aed43d1aa8b23b99f67cb106cdbc881");
  // Several steps of the hash, the last one not full.
  GgufWriter writer;
  writer.AddTensor("a", TensorType::kF32, {700000}, std::string(2800000, 'a'));
  const std::unique_ptr<ModelFile> large = OpenWriter(writer);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(*large->Fingerprint(), "e67f4de5b04e335c0f5484a8b431cb0fa04c57fd31dc10be40718caf1b941de7");
}

TEST(Gguf, FileCutAfterOpen) {
  GgufWriter writer;
  writer.AddTensor("a", TensorType::kF32, {1024}, std::string(4096, 'a'));
  MemoryFile memory(writer.Bytes());
  auto file = ModelFile::Open(memory.path());
  ASSERT_TRUE(file.ok()) << file.status();
  memory.Rewrite(writer.Head());
  std::byte bytes[16];
  const absl::Status status = (*file)->Read((*file)->tensors()[0], 0, absl::MakeSpan(bytes));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_EQ((*file)->Fingerprint().status().code(), absl::StatusCode::kDataLoss);
}

TEST(Gguf, NoSuchFile) {
  const auto file = ModelFile::Open("/nonexistent/model.gguf");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("/nonexistent/model.gguf"));
  EXPECT_EQ(ModelFile::Open("").status().code(), absl::StatusCode::kNotFound);
}

TEST(Gguf, NotARegularFile) {
  EXPECT_EQ(ModelFile::Open("/dev/zero").status().code(), absl::StatusCode::kInvalidArgument);
  const std::string pipe = ::testing::TempDir() + "/kvrelay_pipe_" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ModelFile::Open(pipe).status().code(), absl::StatusCode::kInvalidArgument);
  unlink(pipe.c_str());
}

}  // namespace
}  // namespace kvrelay::model_file
