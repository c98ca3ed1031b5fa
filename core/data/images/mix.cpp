// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/mix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace trainer {
namespace {

/// In (0, 1), so that its logarithm is finite.
double open_uniform(RandomStream& random) {
  return (static_cast<double>(random.next_word()) + 0.5) * 0x1p-32;
}

double normal(RandomStream& random) {
  const double radius = std::sqrt(-2 * std::log(open_uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * open_uniform(random));
}

/// Logarithm of a draw from Gamma(shape, 1), after Marsaglia and Tsang, "A simple method for generating gamma
/// variables" (2000). Small shapes give numbers that only their logarithms hold.
double draw_log_gamma(double shape, RandomStream& random) {
  if (shape < 1) return draw_log_gamma(shape + 1, random) + std::log(open_uniform(random)) / shape;
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(random), root = 1 + c * x;
    const double log_u = std::log(open_uniform(random));
    if (root <= 0) continue;
    const double log_v = 3 * std::log(root), v = std::exp(log_v);
    if (log_u < 0.5 * x * x + d - d * v + d * log_v) return std::log(d) + log_v;
  }
}

// The third word of the counter for draws made once per step; rows are numbered from 0.
constexpr uint32_t kWholeStep = std::numeric_limits<uint32_t>::max();

/// A window of the share 1 - lambda of the image about a uniform centre, cut at the edges.
void draw_window(double lambda, int64_t height, int64_t width, RandomStream& random, Mixing& mixing) {
  const double side = std::sqrt(1 - lambda);
  const auto cut = [&](int64_t size, int64_t& first, int64_t& count) {
    const auto window = static_cast<int64_t>(side * static_cast<double>(size));
    const int64_t centre = random.next_below(size);
    first = std::clamp<int64_t>(centre - window / 2, 0, size);
    count = std::clamp<int64_t>(centre - window / 2 + window, 0, size) - first;
  };
  cut(height, mixing.top, mixing.height);
  cut(width, mixing.left, mixing.width);
  mixing.kept = 0;
  mixing.mix_weight =
      1 - static_cast<float>(mixing.height * mixing.width) / static_cast<float>(height * width);
}

}  // namespace

void Mix::declare(Fields& fields) {
  fields.add("mixup", &mixup, "mixup's alpha (blends two images); 0: off").at_least(0).at_most(1000);
  fields.add("cutmix", &cutmix, "CutMix's alpha (pastes a rectangle of another image); 0: off")
      .at_least(0)
      .at_most(1000);
}

double draw_beta(double alpha, RandomStream& random) {
  const double a = draw_log_gamma(alpha, random), b = draw_log_gamma(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

Mixing MixingDraw::draw(int64_t step, int64_t row, int64_t height, int64_t width) const {
  Mixing mixing;
  RandomStream whole(key_, static_cast<uint32_t>(step), kWholeStep);
  mixing.partner = (row + 1 + whole.next_below(global_batch_ - 1)) % global_batch_;
  RandomStream random(key_, static_cast<uint32_t>(step), static_cast<uint32_t>(row));
  const bool either = mix_.mixup > 0 && mix_.cutmix > 0;
  const bool cut = either ? random.next_below(2) == 1 : mix_.cutmix > 0;
  const double lambda = draw_beta(cut ? mix_.cutmix : mix_.mixup, random);
  if (cut) {
    draw_window(lambda, height, width, random, mixing);
  } else {
    mixing.height = height, mixing.width = width;
    mixing.kept = mixing.mix_weight = static_cast<float>(lambda);
  }
  return mixing;
}

}  // namespace trainer
