// SPDX-License-Identifier: Apache-2.0
#include "core/train/sampling.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace trainer {
namespace {

/// The index of the first of the largest.
size_t largest_of(std::span<const float> logits) {
  size_t largest = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) throw Error(ExitCode::internal, "the network's output is not a number (NaN)");
    if (logits[i] > logits[largest]) largest = i;
  }
  if (!std::isfinite(logits[largest])) throw Error(ExitCode::internal, "the network's output is not finite");
  return largest;
}

/// Order of a heap: its first entry has the largest weight and, among equal ones, the lowest token.
bool comes_later(const std::pair<double, int32_t>& a, const std::pair<double, int32_t>& b) {
  return a.first != b.first ? a.first < b.first : a.second > b.second;
}

double sum_of(const std::vector<std::pair<double, int32_t>>& weights) {
  double sum = 0;
  for (const auto& [weight, token] : weights) sum += weight;
  return sum;
}

}  // namespace

double token_draw(uint64_t seed, int64_t sample, int64_t position) {
  const uint64_t key = random_key(seed, "generate");
  const auto at = static_cast<uint64_t>(position), of = static_cast<uint64_t>(sample);
  const Words words = philox(key, {{static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32),
                                    static_cast<uint32_t>(of), static_cast<uint32_t>(of >> 32)}});
  const uint64_t bits = (uint64_t{words.v[0]} << 32 | words.v[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

void TokenSampler::weigh(std::span<const float> logits, double largest) {
  weights_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    weights_[i] = {std::exp((static_cast<double>(logits[i]) - largest) / settings_.temperature),
                   static_cast<int32_t>(i)};
  }
}

double TokenSampler::keep_next() {
  std::ranges::pop_heap(weights_, comes_later);
  kept_.push_back(weights_.back());
  weights_.pop_back();
  return kept_.back().first;
}

/// Moves the tokens that may be drawn into `kept_`, the likeliest first; returns the sum of their weights. A
/// heap gives the first of them without sorting the others.
double TokenSampler::keep_largest() {
  kept_.clear();
  std::ranges::make_heap(weights_, comes_later);
  const bool is_limited = settings_.top_k > 0 && settings_.top_k < static_cast<int64_t>(weights_.size());
  const size_t most = is_limited ? static_cast<size_t>(settings_.top_k) : weights_.size();
  double total = 0;  // of those that top_k leaves
  if (is_limited) {
    while (kept_.size() < most) total += keep_next();
  } else {
    total = sum_of(weights_);
  }
  double sum = 0;
  size_t count = 0;
  while (count < most && (count == 0 || sum < settings_.top_p * total)) {
    if (count == kept_.size()) keep_next();
    sum += kept_[count++].first;
  }
  kept_.resize(count);
  return sum;
}

int32_t TokenSampler::pick(std::span<const float> logits, double draw) {
  const size_t largest = largest_of(logits);
  if (settings_.temperature == 0) return static_cast<int32_t>(largest);
  weigh(logits, logits[largest]);
  const bool all = settings_.top_k == 0 && settings_.top_p >= 1;
  const double total = all ? sum_of(weights_) : keep_largest();
  const std::vector<Weighted>& from = all ? weights_ : kept_;
  double left = draw * total;
  for (const Weighted& weighted : from) {
    left -= weighted.first;
    if (left < 0) return weighted.second;
  }
  // Rounding has left a little: the last token that can be drawn.
  const auto last =
      std::find_if(from.rbegin(), from.rend(), [](const Weighted& weighted) { return weighted.first > 0; });
  return last->second;
}

}  // namespace trainer
