// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/score_counts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace trainer {
namespace {

constexpr int64_t kMostBins = int64_t{1} << 20, kMostCells = int64_t{1} << 24;
constexpr int64_t kIntervals = 15, kPerInterval = 3, kRanks = 1 + kIntervals * kPerInterval;
/// Confidences are added up as whole numbers of this fraction.
constexpr double kConfidenceUnit = 1.0 / (int64_t{1} << 30);
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// log(p / (1 - p)) of each class of a softmax, without cancellation: x_c - log(sum of exp of the others).
void log_odds(std::span<const float> logits, std::vector<double>& odds) {
  const auto top = static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
  const double most = logits[top];
  double second = -std::numeric_limits<double>::infinity(), sum = 0;
  for (size_t c = 0; c < logits.size(); ++c) {
    if (c != top) second = std::max<double>(second, logits[c]);
    sum += std::exp(logits[c] - most);
  }
  double others = 0;
  odds.clear();
  for (size_t c = 0; c < logits.size(); ++c) {
    if (c != top) others += std::exp(logits[c] - second);
    odds.push_back(logits[c] - most - std::log(sum - std::exp(logits[c] - most)));
  }
  const bool is_alone = second == -std::numeric_limits<double>::infinity();
  odds[top] = is_alone ? std::numeric_limits<double>::infinity() : most - second - std::log(others);
}

double sigmoid_of(double odds) {
  return 1 / (1 + std::exp(-odds));
}

Metric score_metric(const std::string& name, const std::string& help, Direction direction,
                    double (*of)(const ScoreCounts&)) {
  return {.name = name,
          .help = help,
          .direction = direction,
          .sums = {},
          .scores = score_output::kLogits,
          .of_scores = of};
}

}  // namespace

int64_t ScoreShape::bins() const {
  const auto most = static_cast<uint64_t>(kMostCells / std::max<int64_t>(1, ranked_classes()));
  return std::min<int64_t>(kMostBins, static_cast<int64_t>(std::bit_floor(std::max<uint64_t>(2, most))));
}

int64_t ScoreShape::bytes() const {
  return (kRanks + 2 * ranked_classes() * bins()) * int64_t{sizeof(int64_t)};
}

ScoreCounts::ScoreCounts(const ScoreShape& shape)
    : shape_(shape), counts_(static_cast<size_t>(shape.bytes()) / sizeof(int64_t)) {}

void ScoreCounts::clear() {
  std::ranges::fill(counts_, 0);
}

void ScoreCounts::add(const ScoredBatch& batch) {
  const auto classes = static_cast<size_t>(shape_.classes);
  for (size_t row = 0; row < batch.weights.size(); ++row) {
    if (batch.weights[row] == 0) continue;
    const std::span<const float> logits = batch.logits.subspan(row * classes, classes);
    if (shape_.of_sets) {
      add_set(logits, batch.targets.subspan(row * classes, classes));
    } else if (const auto label = static_cast<int32_t>(batch.labels[row]); label != shape_.ignored_label) {
      add_row(logits, label);
    }
  }
}

void ScoreCounts::add_row(std::span<const float> logits, int64_t label) {
  const bool is_valid =
      std::ranges::all_of(logits, [](float x) { return x < std::numeric_limits<float>::infinity(); });
  if (!is_valid || std::ranges::max(logits) == -std::numeric_limits<float>::infinity()) {
    ++counts_[0];
    return;
  }
  log_odds(logits, odds_);
  const auto top = std::ranges::max_element(logits) - logits.begin();
  add_confidence(sigmoid_of(odds_[static_cast<size_t>(top)]), top == label);
  if (shape_.ranked_classes() == 1) return rank(0, odds_.back(), label == 1);
  for (int64_t c = 0; c < shape_.ranked_classes(); ++c) rank(c, odds_[static_cast<size_t>(c)], label == c);
}

void ScoreCounts::add_set(std::span<const float> logits, std::span<const float> targets) {
  if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); })) {
    ++counts_[0];
    return;
  }
  for (size_t c = 0; c < logits.size(); ++c) {
    const bool is_positive = targets[c] >= 0.5f;
    add_confidence(sigmoid_of(logits[c]), is_positive);
    if (shape_.ranks) rank(static_cast<int64_t>(c), logits[c], is_positive);
  }
}

void ScoreCounts::add_confidence(double confidence, bool is_right) {
  const int64_t interval = std::min(kIntervals - 1, static_cast<int64_t>(confidence * kIntervals));
  int64_t* counts = counts_.data() + 1 + interval * kPerInterval;
  ++counts[0];
  counts[1] += is_right ? 1 : 0;
  counts[2] += std::llround(confidence / kConfidenceUnit);
}

/// Bins are equal intervals of z / (1 + |z|): fine near 0, where most scores are, and without an end. Odds of
/// 1 are in the middle of one, so that rounding does not part them.
void ScoreCounts::rank(int64_t ranked_class, double log_odds, bool is_positive) {
  const int64_t bins = shape_.bins();
  const double share = std::isinf(log_odds) ? (log_odds > 0 ? 1 : -1) : log_odds / (1 + std::abs(log_odds));
  const int64_t bin =
      std::clamp<int64_t>(std::llround((share + 1) / 2 * static_cast<double>(bins)), 0, bins - 1);
  ++counts_[static_cast<size_t>(kRanks + 2 * (ranked_class * bins + bin) + (is_positive ? 1 : 0))];
}

double ScoreCounts::auroc_of(int64_t ranked_class) const {
  const int64_t* bin = counts_.data() + kRanks + 2 * ranked_class * shape_.bins();
  double below = 0, positives = 0, twice = 0;  // negatives in lower bins; pairs in the right order, doubled
  for (int64_t i = 0; i < shape_.bins(); ++i, bin += 2) {
    const auto negative = static_cast<double>(bin[0]), positive = static_cast<double>(bin[1]);
    twice += positive * (2 * below + negative);
    below += negative;
    positives += positive;
  }
  return below == 0 || positives == 0 ? kNaN : twice / (2 * below * positives);
}

double ScoreCounts::auroc() const {
  if (counts_[0] > 0) return kNaN;
  double sum = 0;
  int64_t count = 0;
  for (int64_t c = 0; c < shape_.ranked_classes(); ++c) {
    const double area = auroc_of(c);
    if (std::isnan(area)) continue;
    sum += area;
    ++count;
  }
  return count == 0 ? kNaN : sum / static_cast<double>(count);
}

double ScoreCounts::ece() const {
  if (counts_[0] > 0) return kNaN;
  double distance = 0, all = 0;
  for (int64_t i = 0; i < kIntervals; ++i) {
    const int64_t* counts = counts_.data() + 1 + i * kPerInterval;
    all += static_cast<double>(counts[0]);
    distance += std::abs(static_cast<double>(counts[1]) - static_cast<double>(counts[2]) * kConfidenceUnit);
  }
  return all == 0 ? kNaN : distance / all;
}

std::vector<Metric> with_scores(std::vector<Metric> metrics) {
  metrics.push_back(
      score_metric(metric_name::kAuroc,
                   "area under the ROC curve: of the second of two classes, else the mean over classes, each "
                   "against the rest",
                   Direction::larger, [](const ScoreCounts& counts) { return counts.auroc(); }));
  metrics.push_back(
      score_metric("ece", "expected calibration error: distance of confidence and accuracy in 15 intervals",
                   Direction::smaller, [](const ScoreCounts& counts) { return counts.ece(); }));
  return metrics;
}

}  // namespace trainer
