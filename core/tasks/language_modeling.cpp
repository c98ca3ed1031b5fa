// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "core/graph/names.h"
#include "core/tasks/classification.h"
#include "core/tasks/table.h"

namespace trainer {
namespace {

double perplexity(std::span<const double> sums, double samples) {
  return std::exp(mean_of_samples(sums, samples));
}

/// Of loss, tokens and bytes: unlike perplexity, it compares networks of different tokenizers. It is a
/// function of sums like all metrics; the bytes of all labels are one sum more, counted once instead of in
/// each batch.
double bits_per_byte(std::span<const double> sums, double samples) {
  return mean_of_samples(sums, samples) / std::numbers::ln2 * sums[1] / sums[2];
}

void check_positions(const TaskContext& context) {
  const std::string output = to_string(context.output);
  if (context.input_kind != InputKind::tokens) {
    fail_at(context.origin_of("model"),
            fmt::format("the network's output {} has classes for each position of a sequence, which needs "
                        "model.input_kind: tokens; for one class for each sample take one position of it",
                        output));
  }
  if (context.output[1] != context.input[0]) {
    fail_at(context.origin_of("model"),
            fmt::format("the network's output {} must have as many positions as its input, {}", output,
                        context.input[0]));
  }
}

/// The token after each token of a window as its label, logits (N, T, vocabulary).
class LanguageModeling final : public Task {
 public:
  std::string_view name() const override { return "language_modeling"; }
  bool applies_to(const Shape& output, TargetKind kind, InputKind) const override {
    return kind == TargetKind::label && output.size() == 3;
  }

  Targets declare_inputs(Program& program, const TaskContext& context, bool) const override {
    check_positions(context);
    const Shape& output = context.output;
    return {.labels = program.input(input_name::kLabels, {{output[0], output[1]}, DType::i32}),
            .weights = program.input(input_name::kWeights, {{output[0]}, DType::f32})};
  }

  const std::vector<Metric>& metrics() const override {
    static const std::vector<Metric> table = [] {
      std::vector<Metric> all = top_metrics();
      all.push_back({.name = "perplexity",
                     .help = "exp of the mean loss over the tokens",
                     .direction = Direction::smaller,
                     .sums = {output_name::kLoss},
                     .value = perplexity});
      all.push_back({.name = metric_name::kBitsPerByte,
                     .help = "mean loss over the text's bytes, in bits",
                     .direction = Direction::smaller,
                     .sums = {output_name::kLoss, sum_name::kTokens, sum_name::kBytes},
                     .value = bits_per_byte});
      return all;
    }();
    return table;
  }
  const std::vector<MetricSum>& sums() const override { return top_sums(); }
  int64_t classes(const Shape& output) const override { return output[2]; }

  void check_prediction(const TaskContext& context) const override {
    fail_at(
        context.origin_of("model"),
        fmt::format(
            "predict is for images, and the network's output {} has a class for each token; trainer generate "
            "continues a text with it",
            to_string(context.output)));
  }

  std::vector<PredictedField> predict(std::span<const float>, const PredictionRequest&) const override {
    throw std::logic_error("predictions for each token are refused");
  }
};

}  // namespace

std::unique_ptr<Task> language_modeling_task() {
  return std::make_unique<LanguageModeling>();
}

}  // namespace trainer
