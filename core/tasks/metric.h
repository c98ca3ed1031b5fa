// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// Which of two values of a metric is better.
enum class Direction { smaller, larger };

/// Whether `a` is better than `b`. Any finite value is better than one that is not.
bool is_better(Direction direction, double a, double b);

/// Sums over the validation labels that are known without computing, if any.
namespace sum_name {
constexpr const char* kTokens = "tokens";
constexpr const char* kBytes = "bytes";  ///< of the text of the tokens
/// No sum over samples: the deviation of the only target in training, else 1
constexpr const char* kTargetDeviation = "target_deviation";
/// The mean over a sample's targets of their squared differences from the samples' mean, in deviations
constexpr const char* kTargetSquares = "target_squares";
}  // namespace sum_name

/// Outputs of `evaluate` for metrics of scores.
namespace score_output {
constexpr const char* kLogits = "scores";          ///< f32 (N, C), the network's output
constexpr const char* kTargets = "score_targets";  ///< labels i32 (N), or sets of labels f32 (N, C)
constexpr const char* kWeights = "score_weights";  ///< f32 (N), 0 for padding
}  // namespace score_output

namespace metric_name {
constexpr const char* kBitsPerByte = "bits_per_byte";
constexpr const char* kAuroc = "auroc";
}  // namespace metric_name

/// The kind of a confusion matrix: single labels against predictions or, of sets of labels, each class by
/// itself.
struct ConfusionShape {
  // NOLINTNEXTLINE(google-explicit-constructor): most matrices are of single labels
  ConfusionShape(int64_t count = 0, bool sets = false) : classes(count), of_sets(sets) {}
  /// Numbers that are kept.
  int64_t counts() const { return of_sets ? 4 * classes + 2 : classes * classes; }

  int64_t classes;
  bool of_sets;
  int64_t ignored = -1;  ///< the class whose labels do not count, if the ignored label is one
};

class ConfusionMatrix;
class ScoreCounts;

/// A number that evaluation reports: a function of sums over the samples, of a confusion matrix, or of
/// counted scores.
struct Metric {
  std::string name;
  std::string help;  ///< one line
  Direction direction = Direction::larger;
  /// Outputs of `evaluate`, each summed over all batches, and those of sum_name.
  std::vector<std::string> sums;
  /// The output with the sum that replaces the number of samples; empty: the samples themselves.
  std::string count = {};
  /// Of these sums, in their order, and the number of samples.
  double (*value)(std::span<const double> sums, double samples) = nullptr;
  /// The output with the cells of the confusion matrix that the metric is computed from; empty: of sums.
  std::string matrix = {};
  double (*of_matrix)(const ConfusionMatrix& matrix) = nullptr;
  /// The output with the logits whose scores the metric is computed from; empty: of sums or the matrix.
  std::string scores = {};
  double (*of_scores)(const ScoreCounts& counts) = nullptr;
};

/// The first sum divided by the number of samples.
double mean_of_samples(std::span<const double> sums, double samples);

/// The mean of the output `loss`, which every task has.
Metric loss_metric();

/// The same metric with the loss's normalisation: by its weights if the metric reads the loss, else by
/// positions.
Metric over_valid_targets(Metric metric);

/// Begins the names of metrics and outputs of averaged weights.
constexpr const char* kAveraged = "ema_";

/// The metrics, and then the same of averaged weights: "ema_loss" from the output "ema_loss".
std::vector<Metric> with_averages(std::vector<Metric> metrics);

/// The metric of that name, or null.
const Metric* find_metric(const std::vector<Metric>& metrics, std::string_view name);

std::vector<std::string> names_of(const std::vector<Metric>& metrics);

}  // namespace trainer
