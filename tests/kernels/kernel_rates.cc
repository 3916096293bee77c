// Prints the rates of the kernels on this machine: integer matmul for the shapes of the default model, by number of
// rows, attention and stores. Two threads, as the engine would use them. Not a test.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/kernels/kernels.h"
#include "common/kernels/matmul.h"
#include "common/kv/layout.h"
#include "common/tensor/huge_buffer.h"
#include "tests/testing/encode_weights.h"

namespace kvrelay::kernels {
namespace {

constexpr int kThreads = 2;
constexpr double kSecondsPerFigure = 0.15;

// Seconds that one pass of body(thread) on all threads takes: the best of as many as fit.
double BestSeconds(const std::function<void(int)>& body) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  const auto until = Clock::now() + std::chrono::duration<double>(kSecondsPerFigure);
  do {
    const auto begin = Clock::now();
    std::vector<std::thread> threads;
    for (int t = 1; t < kThreads; ++t) threads.emplace_back(body, t);
    body(0);
    for (std::thread& thread : threads) thread.join();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  } while (Clock::now() < until);
  return best;
}

// A matrix of equal random rows.
HugeBuffer RandomMatrix(Matrix& matrix) {
  auto buffer = HugeBuffer::Allocate(MatrixBytes(matrix.type, matrix.backend, matrix.outputs, matrix.inputs));
  if (!buffer.ok()) {
    std::fprintf(stderr, "%s\n", std::string(buffer.status().message()).c_str());
    std::exit(1);
  }
  matrix.data = buffer->data();
  std::vector<float> values(static_cast<size_t>(matrix.inputs));
  std::mt19937 random(1);
  for (float& value : values) value = static_cast<float>(random() % 2001) / 1000 - 1;
  const std::string row = testing::EncodeWeights(matrix.type, values);
  const std::byte* rows[kUnitRows];
  std::fill(std::begin(rows), std::end(rows), reinterpret_cast<const std::byte*>(row.data()));
  for (int unit = 0; unit < matrix.units(); ++unit) PackUnit(matrix, unit, rows);
  return *std::move(buffer);
}

void MatmulRates(const Kernels& kernels, model_file::TensorType type, int outputs, int inputs) {
  // Enough copies that small matrices come from memory too, as they do when all layers pass.
  Matrix matrix{type, MatmulBackend::kNative, outputs, inputs, nullptr};
  const size_t bytes = MatrixBytes(type, matrix.backend, outputs, inputs);
  const int copies = static_cast<int>(std::max<size_t>(1, (size_t{64} << 20) / bytes));
  std::vector<HugeBuffer> buffers;
  std::vector<Matrix> matrices(copies, matrix);
  for (Matrix& copy : matrices) buffers.push_back(RandomMatrix(copy));
  std::printf("%-5s %5dx%-5d", std::string(model_file::TensorTypeName(type)).c_str(), outputs, inputs);
  for (const int rows : {1, 4, 16, 64, 512}) {
    std::vector<float> x(static_cast<size_t>(rows) * inputs);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) - 48;
    std::vector<int8_t> q(x.size());
    std::vector<float> d(x.size() / 32), d_sum(d.size());
    std::vector<int16_t> sums(2 * d.size());
    const QuantizedRows quantized{q.data(), d.data(), d_sum.data(), sums.data()};
    kernels.quantize_rows(x.data(), rows, inputs, quantized);
    std::vector<float> out(static_cast<size_t>(rows) * outputs);
    const int used = std::max(1, std::min(copies, 512 / rows));
    const int half = matrix.units() / kThreads;
    const double seconds = BestSeconds([&](int t) {
      for (int i = 0; i < used; ++i) {
        Matmul(kernels, matrices[i], {rows, inputs, x.data(), quantized}, t * half, (t + 1) * half, out.data(), outputs,
               false);
      }
    });
    const double work = 2.0 * rows * outputs * inputs * used;
    std::printf(" | %4d: %6.1f GOP/s %5.1f GB/s", rows, work / seconds * 1e-9,
                static_cast<double>(bytes) * used / seconds * 1e-9);
  }
  std::printf("\n");
}

void AttentionRates(const Kernels& kernels, KvType type) {
  constexpr int kHeadDim = 64;
  constexpr int kGroup = 3;
  constexpr int kPositions = 2048;
  const size_t block_bytes = kBlockPositions * KvRowBytes(type, kHeadDim);
  std::vector<std::vector<std::byte>> memory(2 * kPositions / kBlockPositions, std::vector<std::byte>(block_bytes));
  std::vector<const std::byte*> k, v;
  for (size_t i = 0; i < memory.size(); i += 2) {
    k.push_back(memory[i].data());
    v.push_back(memory[i + 1].data());
  }
  std::printf("attention %-4s, 3 heads of 64:", std::string(kv::KvTypeName(type)).c_str());
  for (const auto& [first, rows] : {std::pair{511, 1}, {2047, 1}, {0, 64}, {0, 512}, {1536, 512}}) {
    std::vector<float> q(static_cast<size_t>(rows) * kGroup * kHeadDim, 0.01f), out(q.size() * kThreads);
    const size_t scratch_floats = AttentionScratchFloats(kHeadDim);
    std::vector<float> scratch(kThreads * scratch_floats + 16);
    float* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) / 4 % 16;
    const int repeats = std::max(1, 20000 / ((first + rows) * rows / 64 + 16));
    const double seconds = BestSeconds([&, first = first, rows = rows](int t) {
      const AttentionTask task{type,
                               k.data(),
                               v.data(),
                               first,
                               rows,
                               kGroup,
                               kHeadDim,
                               0.125f,
                               q.data(),
                               kGroup * kHeadDim,
                               out.data() + t * q.size(),
                               kGroup * kHeadDim,
                               aligned + t * scratch_floats};
      for (int i = 0; i < repeats; ++i) kernels.attention(task);
    });
    const double pairs = rows * (first + (rows + 1) / 2.0) * kGroup * kThreads * repeats;
    std::printf(" | %d+%d: %.1f GFLOP/s", first, rows, pairs * 4 * kHeadDim / seconds * 1e-9);
  }
  std::printf("\n");
}

// One head's key and value, at the slots of a block in turn.
void StoreRates(const Kernels& kernels, KvType type) {
  constexpr int kHeadDim = 64;
  constexpr int kRepeats = 50;
  std::vector<float> row(kHeadDim);
  for (int i = 0; i < kHeadDim; ++i) row[i] = static_cast<float>(i) - 20;
  std::vector<std::byte> blocks(2 * kThreads * kBlockPositions * KvRowBytes(type, kHeadDim));
  const size_t block_bytes = blocks.size() / 2 / kThreads;
  const double seconds = BestSeconds([&](int t) {
    std::byte* k = blocks.data() + 2 * t * block_bytes;
    for (int i = 0; i < kRepeats * kBlockPositions; ++i) {
      kernels.store_kv(type, row.data(), row.data(), kHeadDim, i % kBlockPositions, k, k + block_bytes);
    }
  });
  std::printf("store %-4s, a head of 64: %.0f ns\n", std::string(kv::KvTypeName(type)).c_str(),
              seconds * 1e9 / kRepeats / kBlockPositions);
}

}  // namespace
}  // namespace kvrelay::kernels

int main(int argc, char** argv) {
  using namespace kvrelay::kernels;
  const auto isa = ParseIsa(argc > 1 ? argv[1] : "auto");
  if (!isa.ok()) {
    std::fprintf(stderr, "%s\n", std::string(isa.status().message()).c_str());
    return 2;
  }
  const Kernels& kernels = KernelsFor(*isa);
  std::printf("%s, %d threads; per number of rows\n", std::string(IsaName(*isa)).c_str(), kThreads);
  using kvrelay::model_file::TensorType;
  for (const auto& [outputs, inputs] : {std::pair{576, 576}, {1536, 576}, {576, 1536}}) {
    MatmulRates(kernels, TensorType::kQ4_1, outputs, inputs);
  }
  MatmulRates(kernels, TensorType::kQ8_0, 576, 576);
  MatmulRates(kernels, TensorType::kQ8_0, 49152, 576);
  for (const TensorType type : kvrelay::testing::kAllTypes) MatmulRates(kernels, type, 576, 1536);
  for (const KvType type : kAllKvTypes) AttentionRates(kernels, type);
  for (const KvType type : kAllKvTypes) StoreRates(kernels, type);
  return 0;
}
