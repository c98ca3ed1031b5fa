// SPDX-License-Identifier: Apache-2.0
#include "core/search/parzen.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/search/draws.h"

namespace trainer {
namespace {

/// Bergstra et al., "Making a science of model search", ICML 2013: the last 25 have weight 1, those before
/// rise from 1 / n to 1. The prior has weight 1.
std::vector<double> product_weights(size_t n) {
  std::vector<double> weights(n + 1, 1);
  if (n <= 25) return weights;
  const size_t ramp = n - 25;
  const double first = 1 / static_cast<double>(n);
  for (size_t i = 0; i < ramp; ++i) {
    const double part = ramp == 1 ? 0 : static_cast<double>(i) / static_cast<double>(ramp - 1);
    weights[i] = first + part * (1 - first);
  }
  return weights;
}

/// log(sum of exp(x)), of finite numbers
double log_sum(const std::vector<double>& x) {
  const double largest = *std::ranges::max_element(x);
  double sum = 0;
  for (const double one : x) sum += std::exp(one - largest);
  return largest + std::log(sum);
}

}  // namespace

Parzen::Parzen(const Space& space, std::vector<size_t> dimensions,
               const std::vector<const Setting*>& observed)
    : dimensions_(std::move(dimensions)) {
  for (const size_t dimension : dimensions_) {
    std::vector<double> values;
    for (const Setting* setting : observed) values.push_back((*setting)[dimension].value());
    kernels_.emplace_back(space[dimension], values);
  }
  double sum = 0;
  for (const double weight : product_weights(observed.size())) up_to_.push_back(sum += weight);
  for (const double weight : product_weights(observed.size())) log_weights_.push_back(std::log(weight / sum));
}

double Parzen::log_density(const Setting& setting) const {
  std::vector<double> sums = log_weights_;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    kernels_[i].add_log_densities(setting[dimensions_[i]].value(), sums);
  }
  return log_sum(sums);
}

void Parzen::draw(RandomStream& stream, Setting& setting) const {
  const auto product = std::ranges::upper_bound(up_to_, next_uniform53(stream) * up_to_.back());
  const auto kernel = static_cast<size_t>(std::min(product, up_to_.end() - 1) - up_to_.begin());
  for (size_t i = 0; i < dimensions_.size(); ++i) setting[dimensions_[i]] = kernels_[i].draw(kernel, stream);
}

}  // namespace trainer
