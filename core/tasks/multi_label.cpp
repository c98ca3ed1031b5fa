// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/graph/ops/confusion_cells.h"
#include "core/tasks/classification.h"
#include "core/tasks/confusion_matrix.h"
#include "core/tasks/score_counts.h"
#include "core/tasks/table.h"

namespace trainer {
namespace {

void check_output(const TaskContext& context) {
  if (context.input_kind == InputKind::tokens) {
    fail_at(context.origin_of("loss.name"),
            "binary_cross_entropy is for images; for a network of tokens use cross_entropy");
  }
  if (context.output.size() == 2) return;
  fail_at(context.origin_of("model"),
          fmt::format("binary_cross_entropy needs one output for each class, (N, classes), got {}; end the "
                      "network with flatten and linear",
                      to_string(context.output)));
}

void check_data(const TaskContext& context) {
  if (context.gives_label_sets) return;
  fail_at(context.origin_of("data.format"),
          fmt::format("{} has one label for each sample, and loss.name: binary_cross_entropy needs a set of "
                      "labels; use image_folder with data.labels, a CSV file with a column for each class",
                      context.format));
}

/// Of a logit, in double.
double sigmoid(float logit) {
  return 1 / (1 + std::exp(-static_cast<double>(logit)));
}

/// Any number of labels for each sample, logits (N, C): each class is there or not, by itself. Mixed samples
/// have shares of classes.
class MultiLabel final : public Task {
 public:
  std::string_view name() const override { return "multi_label"; }
  bool applies_to(const Shape&, TargetKind kind, InputKind) const override {
    return kind == TargetKind::label_set;
  }

  Targets declare_inputs(Program& program, const TaskContext& context, bool) const override {
    check_output(context);
    check_data(context);
    return {.values = program.input(input_name::kTargets, {context.output, DType::f32}),
            .weights = program.input(input_name::kWeights, {{context.output[0]}, DType::f32})};
  }

  const std::vector<Metric>& metrics() const override {
    static const std::vector<Metric> all = with_scores(label_set_metrics());
    return all;
  }
  const std::vector<MetricSum>& sums() const override {
    static const std::vector<MetricSum> none;
    return none;
  }
  TensorId build_cells(Builder& build, TensorId output, const Targets& targets) const override {
    return build.emit<LabelSetCells>({output, targets.values, targets.weights});
  }
  int64_t classes(const Shape& output) const override { return output[1]; }
  bool has_label_sets() const override { return true; }

  void check_prediction(const TaskContext& context) const override { check_output(context); }

  /// The classes with a probability above 1/2, and the probability of all.
  std::vector<PredictedField> predict(std::span<const float> output,
                                      const PredictionRequest& request) const override {
    std::vector<int64_t> classes;
    std::vector<std::string> names;
    std::vector<double> probabilities;
    for (size_t c = 0; c < output.size(); ++c) {
      probabilities.push_back(sigmoid(output[c]));
      if (!(output[c] > 0)) continue;
      classes.push_back(static_cast<int64_t>(c));
      if (c < request.class_names.size()) names.push_back(request.class_names[c]);
    }
    std::vector<PredictedField> fields = {{"classes", classes}};
    if (request.class_names.size() >= output.size()) fields.push_back({"names", names});
    if (!request.top) {
      fields.push_back({"probabilities", probabilities});
      return fields;
    }
    PredictedField::Pairs pairs;
    for (const size_t c : largest(output, *request.top)) pairs.emplace_back(c, probabilities[c]);
    fields.push_back({"probabilities", pairs});
    return fields;
  }

  bool judges() const override { return true; }
  Judgement judge(std::span<const float> output, std::span<const int64_t> labels) const override {
    Judgement found{.is_right = true};
    for (size_t c = 0; c < output.size(); ++c) {
      const bool is_label = std::ranges::find(labels, static_cast<int64_t>(c)) != labels.end();
      if (is_label == (output[c] > 0)) continue;
      found.is_right = false;
      found.certainty = std::max(found.certainty, sigmoid(std::abs(output[c])));
    }
    return found;
  }

  bool averages_mirrored() const override { return true; }
  void average(std::span<float> output, std::span<const float> mirrored, const Shape&) const override {
    for (size_t c = 0; c < output.size(); ++c) {
      const auto mean = [&](int sign) {
        const auto of = [&](float logit) { return sigmoid(static_cast<float>(sign) * logit); };
        return (of(output[c]) + of(mirrored[c])) / 2;
      };
      // Both sides by themselves: 1 - p would lose a small one.
      constexpr double kLeast = std::numeric_limits<double>::min();
      output[c] = static_cast<float>(std::log(mean(1) + kLeast) - std::log(mean(-1) + kLeast));
    }
  }
};

}  // namespace

std::unique_ptr<Task> multi_label_task() {
  return std::make_unique<MultiLabel>();
}

}  // namespace trainer
