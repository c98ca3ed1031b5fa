// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/host_device.h"

namespace trainer::math {

// Branch-free fp32 functions that vectorise on every host and round alike on CPU and GPU; library calls do
// neither. The double overloads are the library's: the reference that tests compare with. Polynomials are
// Chebyshev fits on the stated ranges; relative errors are those of the fp32 evaluation.

TRAINER_HD double exp(double x) {
  return ::exp(x);
}
TRAINER_HD double tanh(double x) {
  return ::tanh(x);
}
TRAINER_HD double erf(double x) {
  return ::erf(x);
}
TRAINER_HD double expm1(double x) {
  return ::expm1(x);
}
TRAINER_HD double log1p(double x) {
  return ::log1p(x);
}
TRAINER_HD double sqrt(double x) {
  return ::sqrt(x);
}
TRAINER_HD float sqrt(float x) {
  return ::sqrtf(x);
}

TRAINER_HD double ln(double x) {
  return ::log(x);
}

TRAINER_HD float bits_to_float(int32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

TRAINER_HD int32_t float_to_bits(float value) {
  int32_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

template <class T>
TRAINER_HD T clamp(T x, T low, T high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

/// exp(x), relative error below 2e-7. Arguments are clamped to [-87.3, 88.7], whose results are normal
/// numbers.
TRAINER_HD float exp(float x) {
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding and subtracting rounds to a whole number
  x = clamp(x, -87.3f, 88.7f);
  const float shifted = x * kLog2e + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  float p = 1.0f / 5040;  // Taylor series; the first term left out is below 6e-9 of the sum
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // 2^n in two halves, since n may be 128. Converting n would be undefined for NaN.
  const int32_t whole = float_to_bits(shifted) - float_to_bits(kRound);
  const int32_t half = whole / 2;
  return p * bits_to_float((half + 127) << 23) * bits_to_float((whole - half + 127) << 23);
}

/// exp(x) - 1, relative error below 3e-7.
TRAINER_HD float expm1(float x) {
  float p = 1.0f / 5040;  // Taylor series; for |x| <= 0.4 the first term left out is below 5e-8 of the sum
  p = p * x + 1.0f / 720;
  p = p * x + 1.0f / 120;
  p = p * x + 1.0f / 24;
  p = p * x + 1.0f / 6;
  p = p * x + 0.5f;
  p = p * x + 1.0f;
  return (x < 0 ? -x : x) < 0.4f ? p * x : exp(x) - 1.0f;
}

/// tanh(x), relative error below 3e-7.
TRAINER_HD float tanh(float x) {
  const float size = x < 0 ? -x : x;
  const float s = x * x;
  float small = -0.0056076888f;  // tanh(x) / x in x^2, |x| <= 0.63
  small = small * s + 0.0205449052f;
  small = small * s - 0.0537070669f;
  small = small * s + 0.1333095729f;
  small = small * s - 0.3333325386f;
  small = (small * s) * x + x;
  const float decay = exp(-2.0f * size);
  const float large = (1.0f - decay) / (1.0f + decay);
  return size < 0.63f ? small : (x < 0 ? -large : large);
}

/// The natural logarithm of normal numbers x > 0, relative error below 2e-7: Cephes' logf (Moshier 1989), x =
/// 2^n (1 + f) with 1 + f from sqrt(1/2) to sqrt(2).
TRAINER_HD float ln(float x) {
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr int32_t kSqrtHalf = 0x3F3504F3;  // the bits of sqrt(1/2)
  const int32_t bits = float_to_bits(x), whole = (bits - kSqrtHalf) >> 23;
  const float n = static_cast<float>(whole);
  const float f = bits_to_float(bits - whole * (1 << 23)) - 1.0f, s = f * f;
  float p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  p = p * f * s + n * kLn2Low - 0.5f * s;
  return f + p + n * kLn2High;
}

/// A point of the unit circle.
template <class T>
struct Direction {
  T cosine, sine;
};

/// That after a share of a turn.
TRAINER_HD Direction<double> direction(double turn) {
  constexpr double kTurn = 6.283185307179586;
  return {::cos(kTurn * turn), ::sin(kTurn * turn)};
}

/// The same for a share from 0 to 1 in steps of 2^-24, absolute error below 1.5e-7: the distance from the
/// nearest quarter is exact, and both series are those of Cephes' sinf (Moshier 1989), up to an eighth of a
/// turn.
TRAINER_HD Direction<float> direction(float turn) {
  constexpr float kTurn = 6.28318531f;
  const float quarters = 4.0f * turn + 0.5f;
  const int32_t quarter = static_cast<int32_t>(quarters);
  const float a = kTurn * (turn - 0.25f * static_cast<float>(quarter)), s = a * a;
  float sine = -1.9515295891e-4f;
  sine = sine * s + 8.3321608736e-3f;
  sine = sine * s - 1.6666654611e-1f;
  sine = sine * s * a + a;
  float cosine = 2.443315711809948e-5f;
  cosine = cosine * s - 1.388731625493765e-3f;
  cosine = cosine * s + 4.166664568298827e-2f;
  cosine = cosine * s * s - 0.5f * s + 1.0f;
  const bool swaps = (quarter & 1) != 0, turns = (quarter & 2) != 0;
  const float x = swaps ? -sine : cosine, y = swaps ? cosine : sine;
  return {turns ? -x : x, turns ? -y : y};
}

/// log(1 + x) for x from 0 to 1, relative error below 2e-7.
TRAINER_HD float log1p(float x) {
  float p = -0.0032563785f;  // log(1 + x) / x in x
  p = p * x + 0.0199071616f;
  p = p * x - 0.0570642017f;
  p = p * x + 0.1061426476f;
  p = p * x - 0.1531186253f;
  p = p * x + 0.1967811733f;
  p = p * x - 0.2495455891f;
  p = p * x + 0.3333000541f;
  p = p * x - 0.4999990463f;
  p = p * x + 1.0f;
  return p * x;
}

/// erf(x), absolute error below 2e-7.
TRAINER_HD float erf(float x) {
  const float size = clamp(x < 0 ? -x : x, 0.0f, 4.0f);
  const float s = size * size;
  float small = 7.8824974e-05f;  // erf(x) / x in x^2, |x| <= 1
  small = small * s - 0.0008018855f;
  small = small * s + 0.0051893122f;
  small = small * s - 0.0268543288f;
  small = small * s + 0.1128359735f;
  small = small * s - 0.3761262596f;
  small = small * s + 1.1283791065f;
  small = small * size;
  float log_tail = -1.3309391e-05f;  // log(1 - erf(x)), 1 <= x <= 4
  log_tail = log_tail * size + 0.000317572034f;
  log_tail = log_tail * size - 0.00343686761f;
  log_tail = log_tail * size + 0.0226219855f;
  log_tail = log_tail * size - 0.103318982f;
  log_tail = log_tail * size - 0.639093339f;
  log_tail = log_tail * size - 1.1259259f;
  log_tail = log_tail * size - 0.000756968628f;
  const float value = size < 1.0f ? small : 1.0f - exp(log_tail);
  return x < 0 ? -value : value;
}

}  // namespace trainer::math
