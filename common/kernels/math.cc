#include "common/kernels/math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/kernels/exp_polynomial.h"

namespace kvrelay::kernels {

float Exp(float x) {
  using P = ExpPolynomial;
  if (x < P::kLowest) return 0.0f;
  if (x > P::kHighest) return std::numeric_limits<float>::infinity();
  const float rounded = std::fma(x, P::kLog2E, P::kRound);
  const float n = rounded - P::kRound;
  float r = std::fma(n, -P::kLn2High, x);
  r = std::fma(n, -P::kLn2Low, r);
  float p = std::fma(P::kC6, r, P::kC5);
  p = std::fma(p, r, P::kC4);
  p = std::fma(p, r, P::kC3);
  p = std::fma(p, r, P::kC2);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  return p * std::bit_cast<float>((std::bit_cast<uint32_t>(rounded) << 23) + P::kOneBits);
}

// x = 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2 / 2 + f^3 * q(f), where q was fitted for
// the smallest relative error of the whole (8e-10).
float Log(float x) {
  constexpr uint32_t kSqrtHalfBits = 0x3F3504F3;
  constexpr float kQ[] = {0x1.14792cp-4f,  -0x1.de0d0ep-4f, 0x1.e6c376p-4f,  -0x1.fc278cp-4f, 0x1.233b62p-3f,
                          -0x1.555c48p-3f, 0x1.99a478p-3f,  -0x1.000006p-2f, 0x1.555548p-2f};
  if (std::isnan(x) || x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<float>::infinity();
  if (std::isinf(x)) return x;
  int exponent = 0;
  if (x < std::numeric_limits<float>::min()) {  // denormal
    x *= 0x1p23f;
    exponent = -23;
  }
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const int shift = static_cast<int32_t>(bits - kSqrtHalfBits) >> 23;
  exponent += shift;
  const float f = std::bit_cast<float>(bits - (static_cast<uint32_t>(shift) << 23)) - 1.0f;
  float q = kQ[0];
  for (int i = 1; i < 9; ++i) q = std::fma(q, f, kQ[i]);
  const float square = f * f;
  float tail = std::fma(square * f, q, -0.5f * square);
  const float e = static_cast<float>(exponent);
  tail = std::fma(e, ExpPolynomial::kLn2Low, tail);
  return std::fma(e, ExpPolynomial::kLn2High, f + tail);
}

}  // namespace kvrelay::kernels
