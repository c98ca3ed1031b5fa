// SPDX-License-Identifier: Apache-2.0
#include "tests/search/functions.h"

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace trainer {
namespace {

double square(double x) {
  return x * x;
}

double sphere(const Setting& x) {
  const std::array<double, 4> best = {-3.3, -1.2, -4.7, -2.1};
  double sum = 0;
  for (size_t i = 0; i < best.size(); ++i) sum += square(std::log10(*x[i]) - best[i]);
  return sum;
}

double branin(const Setting& s) {
  const double x = *s[0], y = *s[1], pi = std::numbers::pi;
  return square(y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6) + 10 * (1 - 1 / (8 * pi)) * std::cos(x) +
         10 - 0.39788735772973816;
}

double hartmann(const Setting& x) {
  constexpr double kA[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                               {0.05, 10, 17, 0.1, 8, 14},
                               {3, 3.5, 1.7, 10, 17, 8},
                               {17, 8, 0.05, 10, 0.1, 14}};
  constexpr double kP[4][6] = {{1312, 1696, 5569, 124, 8283, 5886},
                               {2329, 4135, 8307, 3736, 1004, 9991},
                               {2348, 1451, 3522, 2883, 3047, 6650},
                               {4047, 8828, 8732, 5743, 1091, 381}};
  constexpr double kC[4] = {1, 1.2, 3, 3.2};
  double sum = 0;
  for (size_t i = 0; i < 4; ++i) {
    double exponent = 0;
    for (size_t k = 0; k < 6; ++k) exponent += kA[i][k] * square(*x[k] - 1e-4 * kP[i][k]);
    sum += kC[i] * std::exp(-exponent);
  }
  return 3.322368011391339 - sum;
}

/// An optimiser with parameters of its own, beside one that all have.
double branches(const Setting& x) {
  double own = 0;
  if (*x[1] == 0) {
    own = 0.2 + square(std::log10(*x[2]) + 1) + 4 * square(*x[3] - 0.9);
  } else if (*x[1] == 1) {
    own = 0.5 * square(std::log10(*x[4]) + 3) + 2 * square(*x[5] - 0.7);
  } else {
    own = 0.5 + 0.1 * std::abs(*x[6] - 12);
  }
  return own + 0.1 * square(std::log10(*x[0]) + 3.5);
}

/// Integers and choices, which depend on each other.
double network(const Setting& x) {
  const std::array<double, 4> least = {0.1, 0, 0.3, 0.8}, best_rate = {-2.5, -3, -2, -1};
  const auto activation = static_cast<size_t>(*x[2]);
  return least[activation] + 0.02 * square(*x[0] - 7) + 0.1 * square(std::log2(*x[1]) - 8) +
         0.5 * square(std::log10(*x[3]) - best_rate[activation]) + square(*x[4] - 0.2);
}

/// Rosenbrock's function of logarithms: a curved valley.
double valley(const Setting& x) {
  double sum = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    const double a = std::log10(*x[i]), b = std::log10(*x[i + 1]);
    sum += 5 * square(b - a * a) + square(1 - a);
  }
  return sum;
}

Space alike(const Dimension& dimension, int count) {
  Space space(static_cast<size_t>(count), dimension);
  for (size_t i = 0; i < space.size(); ++i) space[i].name += std::to_string(i);
  return space;
}

}  // namespace

Dimension real(const std::string& name, double low, double high, bool logarithmic) {
  return {.name = name, .low = low, .high = high, .logarithmic = logarithmic};
}

Dimension integer(const std::string& name, double low, double high, bool logarithmic) {
  return {
      .name = name, .kind = Dimension::Kind::integer, .low = low, .high = high, .logarithmic = logarithmic};
}

Dimension choice(const std::string& name, int64_t choices) {
  return {.name = name, .kind = Dimension::Kind::choice, .choices = choices};
}

Dimension only_if(Dimension dimension, size_t choice, const std::vector<int64_t>& indices) {
  dimension.conditions.push_back({.dimension = choice, .choices = indices});
  return dimension;
}

std::vector<SearchFunction> search_functions() {
  return {
      {"sphere", alike(real("x", 1e-6, 1, true), 4), sphere},
      {"branin", {real("x", -5, 10), real("y", 0, 15)}, branin},
      {"hartmann", alike(real("x", 0, 1), 6), hartmann},
      {"branches",
       {real("decay", 1e-6, 1e-1, true), choice("optimizer", 3),
        only_if(real("sgd_lr", 1e-4, 1, true), 1, {0}), only_if(real("momentum", 0, 1), 1, {0}),
        only_if(real("adam_lr", 1e-5, 1e-1, true), 1, {1}), only_if(real("beta", 0, 1), 1, {1}),
        only_if(integer("history", 1, 30), 1, {2})},
       branches},
      {"network",
       {integer("layers", 1, 12), integer("width", 8, 2048, true), choice("activation", 4),
        real("lr", 1e-5, 1, true), real("dropout", 0, 0.9)},
       network},
      {"valley", alike(real("x", 1e-2, 1e2, true), 6), valley},
  };
}

}  // namespace trainer
