// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/classification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/graph/names.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/tasks/confusion_matrix.h"
#include "core/tasks/score_counts.h"
#include "core/tasks/table.h"

namespace trainer {
namespace {

/// That are printed of a sample by default.
constexpr size_t kPredictedClasses = 5;

template <int64_t k>
TensorId build_top_k(Builder& build, TensorId logits, const Targets& targets) {
  return build.emit<TopK>({logits, targets.labels, targets.weights}, k, targets.ignored_label);
}

/// One label for each sample, logits (N, C). Training may mix samples, and has then two labels for each.
class Classification final : public Task {
 public:
  std::string_view name() const override { return "classification"; }
  /// All but those with classes for each position; the loss refuses other forms.
  bool applies_to(const Shape& output, TargetKind kind, InputKind) const override {
    return kind == TargetKind::label && (output.size() < 3 || output.size() > 4);
  }

  Targets declare_inputs(Program& program, const TaskContext& context, bool training) const override {
    const Shape rows{context.output[0]};
    Targets targets{.labels = program.input(input_name::kLabels, {rows, DType::i32}),
                    .weights = program.input(input_name::kWeights, {rows, DType::f32})};
    if (training && context.mixes) {
      targets.other_labels = program.input(input_name::kOtherLabels, {rows, DType::i32});
      targets.mix_weights = program.input(input_name::kMixWeights, {rows, DType::f32});
    }
    return targets;
  }

  const std::vector<Metric>& metrics() const override {
    static const std::vector<Metric> all = with_scores(class_metrics());
    return all;
  }
  const std::vector<MetricSum>& sums() const override { return top_sums(); }
  int64_t classes(const Shape& output) const override { return output[1]; }

  void check_prediction(const TaskContext& context) const override {
    if (context.output.size() == 2) return;
    fail_at(context.origin_of("model"),
            fmt::format("predict prints one class for each image; the network's output {} has another form",
                        to_string(context.output)));
  }

  std::vector<PredictedField> predict(std::span<const float> output,
                                      const PredictionRequest& request) const override {
    const std::vector<size_t> classes = largest(output, request.top.value_or(kPredictedClasses));
    const std::vector<double> shares = probabilities(output);
    std::vector<PredictedField> fields = {{"class", static_cast<int64_t>(classes[0])}};
    if (classes[0] < request.class_names.size()) fields.push_back({"name", request.class_names[classes[0]]});
    if (request.all) {
      fields.push_back({"probabilities", shares});
      return fields;
    }
    PredictedField::Pairs pairs;
    for (const size_t c : classes) pairs.emplace_back(c, shares[c]);
    fields.push_back({"probabilities", pairs});
    return fields;
  }

  bool judges() const override { return true; }
  Judgement judge(std::span<const float> output, std::span<const int64_t> labels) const override {
    const size_t predicted = largest(output, 1)[0];
    return {labels.size() == 1 && labels[0] == static_cast<int64_t>(predicted),
            probabilities(output)[predicted]};
  }

  bool averages_mirrored() const override { return true; }
  void average(std::span<float> output, std::span<const float> mirrored, const Shape&) const override {
    average_probabilities(output, mirrored);
  }
};

}  // namespace

const std::vector<Metric>& top_metrics() {
  static const std::vector<Metric> table = {
      {.name = "top1",
       .help = "fraction of samples (or of their tokens or pixels) whose label has the largest logit",
       .direction = Direction::larger,
       .sums = {"top1"},
       .value = mean_of_samples},
      {.name = "top5",
       .help =
           "fraction of samples (or of their tokens or pixels) whose label is among the five largest logits",
       .direction = Direction::larger,
       .sums = {"top5"},
       .value = mean_of_samples},
  };
  return table;
}

const std::vector<Metric>& class_metrics() {
  static const std::vector<Metric> table = [] {
    std::vector<Metric> all = top_metrics();
    all.insert(all.end(), confusion_metrics().begin(), confusion_metrics().end());
    return all;
  }();
  return table;
}

const std::vector<MetricSum>& top_sums() {
  static const std::vector<MetricSum> table = {{"top1", build_top_k<1>}, {"top5", build_top_k<5>}};
  return table;
}

std::vector<double> probabilities(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> values;
  for (float logit : logits) values.push_back(std::exp(static_cast<double>(logit) - most));
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value /= sum;
  return values;
}

void average_probabilities(std::span<float> logits, std::span<const float> others) {
  const std::vector<double> a = probabilities(logits), b = probabilities(others);
  // Probabilities that are 0 in double keep a finite logarithm.
  constexpr double kLeast = std::numeric_limits<double>::min();
  for (size_t c = 0; c < logits.size(); ++c) {
    const double mean = (a[c] + b[c]) / 2;
    logits[c] = static_cast<float>(std::log(mean < kLeast ? kLeast : mean));
  }
}

std::vector<size_t> largest(std::span<const float> logits, size_t count) {
  std::vector<size_t> classes(logits.size());
  std::iota(classes.begin(), classes.end(), size_t{0});
  const auto end = classes.begin() + static_cast<std::ptrdiff_t>(std::min(count, classes.size()));
  std::partial_sort(classes.begin(), end, classes.end(), [&](size_t a, size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  classes.erase(end, classes.end());
  return classes;
}

std::unique_ptr<Task> classification_task() {
  return std::make_unique<Classification>();
}

}  // namespace trainer
