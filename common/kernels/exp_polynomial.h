// The constants of Exp, shared by the scalar function and by the vector one so that both compute the same bits.
//
// n = round(x / ln 2), r = x - n ln 2 (so |r| <= 0.347), exp(x) = 2^n * p(r), p(r) = 1 + r + r^2 (c2 + c3 r + ... + c6
// r^4). p was fitted for the smallest relative error (3.2e-9) with its first two coefficients fixed at 1, so p(0) is
// exactly 1.
#pragma once

#include <cstdint>

namespace kvrelay::kernels {

struct ExpPolynomial {
  static constexpr float kLowest = -87.0f;  // below: 0. The smallest result is still a normal number.
  static constexpr float kHighest = 88.0f;  // above: infinity
  static constexpr float kLog2E = 0x1.715476p+0f;
  static constexpr float kLn2High = 0x1.62e43p-1f;   // float(ln 2)
  static constexpr float kLn2Low = -0x1.05c61p-29f;  // ln 2 - kLn2High
  // Adding 1.5 * 2^23 rounds to an integer, which is then found in the low bits: no conversion instruction is needed.
  static constexpr float kRound = 0x1.8p+23f;
  // (bits(kRound + n) << 23) + kOneBits are the bits of 2^n: the shift drops all but n's low nine bits.
  static constexpr uint32_t kOneBits = 0x3F800000;
  static constexpr float kC2 = 0x1.fffffcp-2f;
  static constexpr float kC3 = 0x1.555492p-3f;
  static constexpr float kC4 = 0x1.5558b8p-5f;
  static constexpr float kC5 = 0x1.1239aap-7f;
  static constexpr float kC6 = 0x1.6a452ep-10f;
};

}  // namespace kvrelay::kernels
