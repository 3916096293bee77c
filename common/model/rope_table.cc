#include "common/model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace kvrelay::model {
namespace {

constexpr double kLn2 = 0.693147180559945309417;
// Pi / 2 in two parts: the first has trailing zeros enough to make n * high exact for the n that occur here.
constexpr double kHalfPiHigh = 1.5707963267341256, kHalfPiLow = 6.077100506506192e-11;

// Natural logarithm by frexp and the area-tangent series; about 1e-15 relative.
double Ln(double x) {
  int exponent;
  const double m = std::frexp(x, &exponent);  // in [0.5, 1)
  const double z = (m - 1) / (m + 1), z2 = z * z;
  double term = z, sum = 0;
  for (int i = 1; i < 60; i += 2, term *= z2) sum += term / i;
  return 2 * sum + exponent * kLn2;
}

// e^x by reduction to |r| <= ln2 / 2 and the Taylor series.
double Exponential(double x) {
  const double n = std::nearbyint(x / kLn2);
  const double r = std::fma(-n, kLn2, x);
  double term = 1, sum = 1;
  for (int i = 1; i < 20; ++i) {
    term *= r / i;
    sum += term;
  }
  return std::ldexp(sum, static_cast<int>(n));
}

// Sine (first = x) or cosine (first = 1) of |x| <= pi / 4 by the Taylor series.
double Series(double first, int start, double x2) {
  double term = first, sum = first;
  for (int i = start; i < 18; i += 2) {
    term *= -x2 / (i * (i + 1));
    sum += term;
  }
  return sum;
}

void SinCos(double x, double* sin, double* cos) {
  const double n = std::nearbyint(x / (kHalfPiHigh + kHalfPiLow));
  const double r = std::fma(-n, kHalfPiLow, std::fma(-n, kHalfPiHigh, x));
  const double s = Series(r, 2, r * r), c = Series(1, 1, r * r);
  switch (static_cast<long long>(n) & 3) {
    case 0:
      *sin = s, *cos = c;
      break;
    case 1:
      *sin = c, *cos = -s;
      break;
    case 2:
      *sin = -s, *cos = -c;
      break;
    default:
      *sin = -c, *cos = s;
      break;
  }
}

// Of pair i, before scaling: radians per position.
double Frequency(int i, int dims, double log_theta) { return Exponential(-2.0 * i / dims * log_theta); }

constexpr double kTwoPi = 6.283185307179586;

}  // namespace

RopeScaling Llama3Scaling(int dims, double theta, double factor, double low_freq_factor, double high_freq_factor,
                          double original) {
  RopeScaling scaling;
  const double log_theta = Ln(theta);
  for (int i = 0; i < dims / 2; ++i) {
    const double turns = original * Frequency(i, dims, log_theta) / kTwoPi;
    const double kept = std::clamp((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0.0, 1.0);
    scaling.divisors.push_back(1 / ((1 - kept) / factor + kept));
  }
  return scaling;
}

RopeScaling YarnScaling(int dims, double theta, double factor, double beta_fast, double beta_slow, double original) {
  // The pair, as a fraction, that turns so often over the original context.
  const auto pair_of = [&](double turns) { return dims * Ln(original / (turns * kTwoPi)) / (2 * Ln(theta)); };
  const double first = std::max(0.0, std::floor(pair_of(beta_fast)));
  const double last = std::min(dims - 1.0, std::ceil(pair_of(beta_slow)));
  const double width = std::max(0.001, last - first);
  RopeScaling scaling;
  for (int i = 0; i < dims / 2; ++i) {
    const double divided = std::clamp((i - first) / width, 0.0, 1.0);
    scaling.divisors.push_back(1 / (divided / factor + 1 - divided));
  }
  scaling.magnitude = 0.1 * Ln(factor) + 1;
  return scaling;
}

RopeTable MakeRopeTable(int positions, int dims, double theta, const RopeScaling& scaling) {
  RopeTable table;
  const int pairs = dims / 2;
  table.cos.resize(size_t(positions) * pairs);
  table.sin.resize(size_t(positions) * pairs);
  const double log_theta = Ln(theta);
  for (int i = 0; i < pairs; ++i) {
    const double divisor = scaling.divisors.empty() ? 1 : scaling.divisors[i];
    const double frequency = Frequency(i, dims, log_theta) / divisor;
    for (int p = 0; p < positions; ++p) {
      double s, c;
      SinCos(p * frequency, &s, &c);
      table.cos[size_t(p) * pairs + i] = static_cast<float>(scaling.magnitude * c);
      table.sin[size_t(p) * pairs + i] = static_cast<float>(scaling.magnitude * s);
    }
  }
  return table;
}

}  // namespace kvrelay::model
