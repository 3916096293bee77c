#include "tests/bench/limits.h"

#include <immintrin.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/tensor/huge_buffer.h"

namespace kvrelay::bench {
namespace {

constexpr size_t kBytes = size_t{512} << 20;
constexpr int kRounds = 5;
constexpr long kSteps = 4'000'000;
// Enough independent chains to hide a latency of four cycles. Their loops must be unrolled: otherwise the
// chains live in memory, and the figure is that of the stack.
constexpr int kChains = 12;

volatile float sink;

// Shortest wall time of `work(thread)` on every thread.
double BestSeconds(int threads, const std::function<void(int)>& work) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const absl::Duration start = Clock::Real()->Now();
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t) pool.emplace_back(work, t);
    for (std::thread& thread : pool) thread.join();
    best = std::min(best, absl::ToDoubleSeconds(Clock::Real()->Now() - start));
  }
  return best;
}

__attribute__((target("avx2"))) void Read(const std::byte* from, size_t bytes) {
  const auto* p = reinterpret_cast<const __m256i*>(from);
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (size_t i = 0; i < bytes / 32; i += 4) {
    a = _mm256_xor_si256(a, _mm256_load_si256(p + i));
    b = _mm256_xor_si256(b, _mm256_load_si256(p + i + 1));
    c = _mm256_xor_si256(c, _mm256_load_si256(p + i + 2));
    d = _mm256_xor_si256(d, _mm256_load_si256(p + i + 3));
  }
  sink = static_cast<float>(_mm256_extract_epi32(_mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d)), 0));
}

// Each function below runs kSteps rounds of kChains independent operations and adds the chains up at the end, so that
// none can be left out.
#define KVRELAY_CHAINS(type, start, step, add)            \
  type x[kChains];                                        \
  _Pragma("GCC unroll 12") for (type & v : x) v = start;  \
  for (long s = 0; s < kSteps; ++s) {                     \
    _Pragma("GCC unroll 12") for (type & v : x) v = step; \
  }                                                       \
  _Pragma("GCC unroll 12") for (int i = 1; i < kChains; ++i) x[0] = add(x[0], x[i])

__attribute__((target("avx2,fma"))) void Fma256() {
  const __m256 y = _mm256_set1_ps(0.999f), z = _mm256_set1_ps(0.1f);
  KVRELAY_CHAINS(__m256, _mm256_set1_ps(1.f), _mm256_fmadd_ps(v, y, z), _mm256_add_ps);
  sink = _mm256_cvtss_f32(x[0]);
}

__attribute__((target("avx512f"))) void Fma512() {
  const __m512 y = _mm512_set1_ps(0.999f), z = _mm512_set1_ps(0.1f);
  KVRELAY_CHAINS(__m512, _mm512_set1_ps(1.f), _mm512_fmadd_ps(v, y, z), _mm512_add_ps);
  sink = _mm512_cvtss_f32(x[0]);
}

// Multiply, add in pairs, add: hidden from the compiler, which would compute the product once for all.
__attribute__((target("avx2"))) inline __m256i AddProduct(__m256i sum, __m256i a, __m256i b) {
  asm volatile("vpmaddubsw %2, %1, %%ymm15\n\tvpaddw %%ymm15, %0, %0" : "+x"(sum) : "x"(a), "x"(b) : "xmm15");
  return sum;
}
__attribute__((target("avx2"))) void Int8Avx2() {
  const __m256i y = _mm256_set1_epi8(3), z = _mm256_set1_epi8(1);
  KVRELAY_CHAINS(__m256i, _mm256_set1_epi16(1), AddProduct(v, y, z), _mm256_add_epi16);
  sink = static_cast<float>(_mm256_extract_epi32(x[0], 0));
}

__attribute__((target("avx512f,avx512vnni"))) void Int8Vnni() {
  const __m512i y = _mm512_set1_epi8(3), z = _mm512_set1_epi8(1);
  KVRELAY_CHAINS(__m512i, _mm512_set1_epi32(1), _mm512_dpbusd_epi32(v, y, z), _mm512_add_epi32);
  sink = static_cast<float>(_mm512_cvtsi512_si32(x[0]));
}

#undef KVRELAY_CHAINS

}  // namespace

Limits MeasureLimits(int threads) {
  const bool wide = __builtin_cpu_supports("avx512f"), vnni = wide && __builtin_cpu_supports("avx512vnni");
  Limits limits{};
  if (auto memory = HugeBuffer::Allocate(kBytes); memory.ok()) {
    std::fill_n(memory->data(), kBytes, std::byte{1});
    const size_t share = kBytes / threads / 128 * 128;
    limits.read_gb_per_s =
        share * threads / BestSeconds(threads, [&](int t) { Read(memory->data() + share * t, share); }) / 1e9;
  }
  const double operations = 2.0 * kChains * kSteps * threads / 1e9;
  limits.f32_gflop_per_s =
      operations * (wide ? 16 : 8) / BestSeconds(threads, [&](int) { wide ? Fma512() : Fma256(); });
  limits.int8_gop_per_s =
      operations * (vnni ? 64 : 32) / BestSeconds(threads, [&](int) { vnni ? Int8Vnni() : Int8Avx2(); });
  return limits;
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, name, family, model;
  const auto value = [&](const char* key, std::string& to) {
    if (to.empty() && line.rfind(key, 0) == 0 && line.find(": ") != std::string::npos)
      to = line.substr(line.find(": ") + 2);
  };
  while (std::getline(file, line)) {
    value("model name", name);
    value("cpu family", family);
    value("model\t", model);
  }
  return name + " (family " + family + ", model " + model + ")";
}

}  // namespace kvrelay::bench
