// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "core/graph/ops/element_loss.h"
#include "core/tasks/table.h"

namespace trainer {
namespace {

constexpr const char *kAbsoluteError = "absolute_error", *kSquaredError = "squared_error";

template <class Rule>
TensorId build_error(Builder& build, TensorId output, const Targets& targets) {
  return build.emit<ElementLoss>({output, targets.values, targets.weights}, Rule{});
}

void check_regression(const TaskContext& context) {
  if (context.output.size() == 2) return;
  fail_at(context.origin_of("model"),
          fmt::format("expected a number for each target, (N, targets), got {}; end the network with linear",
                      to_string(context.output)));
}

/// Numbers of a table for each sample. The network computes them in units of their deviation.
class Regression final : public Task {
 public:
  std::string_view name() const override { return "regression"; }
  bool applies_to(const Shape&, TargetKind kind, InputKind input) const override {
    return kind == TargetKind::numbers && is_of_table(input);
  }

  Targets declare_inputs(Program& program, const TaskContext& context, bool) const override {
    check_regression(context);
    return {.values = program.input(input_name::kTargets, {context.output, DType::f32}),
            .weights = program.input(input_name::kWeights, {{context.output[0]}, DType::f32})};
  }

  const std::vector<Metric>& metrics() const override {
    static const std::vector<Metric> table = {
        {.name = "mae",
         .help = "mean absolute error, in the target's unit; of several targets in standard deviations",
         .direction = Direction::smaller,
         .sums = {kAbsoluteError, sum_name::kTargetDeviation},
         .value = [](std::span<const double> sums, double samples) { return sums[0] / samples * sums[1]; }},
        {.name = "rmse",
         .help = "root of the mean squared error, in the unit of mae",
         .direction = Direction::smaller,
         .sums = {kSquaredError, sum_name::kTargetDeviation},
         .value = [](std::span<const double> sums,
                     double samples) { return std::sqrt(sums[0] / samples) * sums[1]; }},
        {.name = "r2",
         .help = "coefficient of determination: 1 without errors, 0 for the targets' mean",
         .direction = Direction::larger,
         .sums = {kSquaredError, sum_name::kTargetSquares},
         .value = [](std::span<const double> sums, double) { return 1 - sums[0] / sums[1]; }},
    };
    return table;
  }
  const std::vector<MetricSum>& sums() const override {
    static const std::vector<MetricSum> table = {{kAbsoluteError, build_error<element_loss::AbsoluteError>},
                                                 {kSquaredError, build_error<element_loss::SquaredError>}};
    return table;
  }
  int64_t classes(const Shape&) const override { return 0; }

  void check_prediction(const TaskContext& context) const override { check_regression(context); }

  /// A field for each target, in its unit.
  std::vector<PredictedField> predict(std::span<const float> output,
                                      const PredictionRequest& request) const override {
    std::vector<PredictedField> fields;
    for (size_t c = 0; c < output.size(); ++c) {
      const bool is_known = c < request.targets.size();
      const TargetUnit unit = is_known ? request.targets[c] : TargetUnit{.name = fmt::format("target{}", c)};
      fields.push_back({unit.name, unit.mean + unit.deviation * static_cast<double>(output[c])});
    }
    return fields;
  }
};

}  // namespace

std::unique_ptr<Task> regression_task() {
  return std::make_unique<Regression>();
}

}  // namespace trainer
