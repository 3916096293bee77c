// Attention: the same bits from every kernel set, for every way to cut rows into tasks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/kernel_sets.h"
#include "tests/kernels/test_data.h"
#include "tests/reference/reference_kernels.h"

namespace kvrelay::kernels::testing {
namespace {

using reference::History;

struct Shape {
  KvType type;
  int head_dim;
  int group;
};

// A sequence: its queries, its keys and values rounded to the cache type, and its blocks. Slots that were never stored
// hold NaNs.
struct Sequence {
  Sequence(const Shape& s, int length, uint32_t seed, float query_size = 1.0f)
      : shape(s), positions(length), scale(1.0f / std::sqrt(static_cast<float>(s.head_dim))) {
    std::mt19937 random(seed);
    const size_t count = static_cast<size_t>(length) * s.head_dim;
    k = RandomFloats(random, count, Values::kNormal);
    v = RandomFloats(random, count, Values::kNormal);
    q = RandomFloats(random, count * s.group, Values::kNormal);
    for (float& value : q) value *= query_size;
    const size_t bytes = kBlockPositions * KvRowBytes(s.type, s.head_dim);
    for (int block = 0; block * kBlockPositions < length; ++block) {
      k_memory.emplace_back(bytes, std::byte{0xFF});
      v_memory.emplace_back(bytes, std::byte{0xFF});
    }
    for (size_t i = 0; i < k_memory.size(); ++i) {
      k_blocks.push_back(k_memory[i].data());
      v_blocks.push_back(v_memory[i].data());
    }
  }

  void Store(const Kernels& kernels, int position) {
    const size_t at = static_cast<size_t>(position) * shape.head_dim;
    const size_t block = position / kBlockPositions;
    ASSERT_TRUE(kernels.store_kv(shape.type, &k[at], &v[at], shape.head_dim, position % kBlockPositions,
                                 k_memory[block].data(), v_memory[block].data()));
  }
  void StoreAll(const Kernels& kernels) {
    for (int position = 0; position < positions; ++position) Store(kernels, position);
  }

  int RowFloats() const { return shape.group * shape.head_dim; }

  // Rows first..first+rows-1, as one task, into `out`.
  void Attend(const Kernels& kernels, int first, int rows, std::vector<float>& out) const {
    AlignedBytes scratch(AttentionScratchFloats(shape.head_dim) * sizeof(float));
    const AttentionTask task{.type = shape.type,
                             .k_blocks = k_blocks.data(),
                             .v_blocks = v_blocks.data(),
                             .first_position = first,
                             .rows = rows,
                             .group = shape.group,
                             .head_dim = shape.head_dim,
                             .scale = scale,
                             .q = q.data() + static_cast<size_t>(first) * RowFloats(),
                             .q_stride = RowFloats(),
                             .out = out.data() + static_cast<size_t>(first) * RowFloats(),
                             .out_stride = RowFloats(),
                             .scratch = reinterpret_cast<float*>(scratch.data())};
    kernels.attention(task);
  }

  // The whole sequence in tasks of `chunk` rows.
  std::vector<float> AttendInChunks(const Kernels& kernels, int chunk) const {
    std::vector<float> out(static_cast<size_t>(positions) * RowFloats());
    for (int first = 0; first < positions; first += chunk) {
      Attend(kernels, first, std::min(chunk, positions - first), out);
    }
    return out;
  }

  // Keys or values as the cache holds them.
  std::vector<float> Rounded(const std::vector<float>& values) const {
    std::vector<float> out;
    for (int position = 0; position < positions; ++position) {
      const auto row =
          absl::MakeConstSpan(values).subspan(static_cast<size_t>(position) * shape.head_dim, shape.head_dim);
      const std::vector<float> rounded = reference::RoundedToCache(shape.type, row);
      out.insert(out.end(), rounded.begin(), rounded.end());
    }
    return out;
  }

  Shape shape;
  int positions;
  float scale;
  std::vector<float> k, v, q;
  std::vector<std::vector<std::byte>> k_memory, v_memory;
  std::vector<const std::byte*> k_blocks, v_blocks;
};

// Row by row, with nothing but NaNs after the row's own position, against the twins; then any chunking, with all
// positions in place, against that.
void CheckSequence(Sequence& sequence, const std::vector<int>& chunks, const std::vector<int>& rows_to_check) {
  const std::vector<float> k = sequence.Rounded(sequence.k);
  const std::vector<float> v = sequence.Rounded(sequence.v);
  const History history{k, v, sequence.shape.head_dim};
  const Kernels& scalar = KernelsFor(Isa::kScalar);
  std::vector<float> want(static_cast<size_t>(sequence.positions) * sequence.RowFloats());
  for (int row = 0; row < sequence.positions; ++row) {
    sequence.Store(scalar, row);
    sequence.Attend(scalar, row, 1, want);
  }
  for (const int row : rows_to_check) {
    for (int head = 0; head < sequence.shape.group; ++head) {
      const size_t at = static_cast<size_t>(row) * sequence.RowFloats() + head * sequence.shape.head_dim;
      const auto q = absl::MakeConstSpan(sequence.q).subspan(at, sequence.shape.head_dim);
      const auto contract = reference::AttentionContract(history, q, row + 1, sequence.scale);
      ASSERT_TRUE(SameBits(&want[at], contract.data(), contract.size())) << "row " << row << " head " << head;
      const auto exact = reference::AttentionDouble(history, q, row + 1, sequence.scale);
      for (size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(want[at + i], exact[i].value, exact[i].tolerance);
    }
  }
  for (const KernelSet& set : SetsUnderTest()) {
    for (const int chunk : chunks) {
      const std::vector<float> got = sequence.AttendInChunks(*set.kernels, chunk);
      ASSERT_TRUE(SameBits(got.data(), want.data(), want.size())) << set.name << ", chunks of " << chunk;
    }
  }
}

TEST(AttentionTest, AnyChunkingAcrossBlocksAndRanges) {
  for (const KvType type : kAllKvTypes) {
    Sequence sequence({type, 64, 3}, 700, 12);
    CheckSequence(sequence, {1, 7, 64, 512},
                  {0, 1, 14, 15, 16, 62, 63, 64, 65, 127, 128, 510, 511, 512, 513, 575, 576, 699});
  }
}

TEST(AttentionTest, EveryGroupAndHeadSize) {
  uint32_t seed = 100;
  for (const int head_dim : {16, 32, 48, 80, 128, 256}) {
    for (const int group : {1, 2, 3, 4, 5, 7, 8, 16}) {
      KvType type = kAllKvTypes[seed % std::size(kAllKvTypes)];
      if (type == KvType::kInt8 && head_dim % kKvScaleDims != 0) type = KvType::kF16;
      Sequence sequence({type, head_dim, group}, 70, seed++);
      CheckSequence(sequence, {1, 5, 70}, {0, 63, 64, 69});
      if (HasFatalFailure()) FAIL() << "head_dim " << head_dim << " group " << group;
    }
  }
}

// One score far above all others: the other weights vanish, and rescaling between blocks and ranges is by 0 and 1.
TEST(AttentionTest, SharpScores) {
  Sequence sequence({KvType::kF16, 64, 3}, 600, 13, 100.0f);
  CheckSequence(sequence, {1, 64, 600}, {0, 63, 64, 511, 512, 599});
}

// Values so small that products underflow: a chain that ran past a row's end would turn -0 into +0.
TEST(AttentionTest, UnderflowingValues) {
  Sequence sequence({KvType::kF32, 64, 2}, 130, 14, 20.0f);
  for (size_t i = 0; i < sequence.v.size(); ++i) sequence.v[i] = i % 3 == 0 ? -1e-45f : -1e-40f;
  CheckSequence(sequence, {1, 3, 130}, {0, 1, 63, 64, 129});
}

TEST(AttentionTest, TasksThatStartAnywhere) {
  Sequence sequence({KvType::kInt8, 64, 3}, 560, 15);
  const Kernels& scalar = KernelsFor(Isa::kScalar);
  sequence.StoreAll(scalar);
  const std::vector<float> want = sequence.AttendInChunks(scalar, 1);
  for (const KernelSet& set : SetsUnderTest()) {
    for (const auto& [first, rows] : std::vector<std::pair<int, int>>{
             {0, 1}, {1, 2}, {60, 5}, {63, 2}, {50, 80}, {448, 65}, {500, 60}, {511, 2}, {512, 48}, {559, 1}}) {
      std::vector<float> got(want.size(), -7.0f);
      sequence.Attend(*set.kernels, first, rows, got);
      const size_t begin = static_cast<size_t>(first) * sequence.RowFloats();
      const size_t count = static_cast<size_t>(rows) * sequence.RowFloats();
      ASSERT_TRUE(SameBits(&got[begin], &want[begin], count)) << set.name << " " << first << "+" << rows;
      for (size_t i = 0; i < got.size(); ++i) {
        const bool inside = i >= begin && i < begin + count;
        ASSERT_TRUE(inside || got[i] == -7.0f) << "wrote outside the rows";
      }
    }
  }
}

// What is not finite in a query must not vanish in the softmax.
TEST(AttentionTest, KeepsWhatIsNotFinite) {
  Sequence sequence({KvType::kF16, 64, 1}, 70, 16);
  sequence.StoreAll(KernelsFor(Isa::kScalar));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    sequence.q[69 * 64 + 5] = bad;
    for (const KernelSet& set : SetsUnderTest()) {
      std::vector<float> got(static_cast<size_t>(sequence.positions) * sequence.RowFloats());
      sequence.Attend(*set.kernels, 69, 1, got);
      EXPECT_FALSE(std::isfinite(got[69 * 64])) << set.name << " " << bad;
    }
  }
}

}  // namespace
}  // namespace kvrelay::kernels::testing
