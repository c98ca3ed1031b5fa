// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <stdexcept>

#include "core/graph/names.h"
#include "core/tasks/classification.h"
#include "core/tasks/confusion_matrix.h"
#include "core/tasks/table.h"

namespace trainer {
namespace {

void check_recipe(const TaskContext& context) {
  const Shape &input = context.input, &logits = context.output;
  const std::string output = to_string(logits);
  if (!context.gives_label_maps) {
    fail_at(
        context.origin_of("data.format"),
        fmt::format("{} has no label maps, which the network's output {} (a class for each pixel) needs; end "
                    "the network with flatten and linear, set data.masks (of image_folder), or use {}",
                    context.format, output, fmt::join(context.formats_of_label_maps, ", ")));
  }
  if (input.size() != 3 || Shape{logits[2], logits[3]} != Shape{input[1], input[2]}) {
    fail_at(context.origin_of("model"),
            fmt::format("the network's output {} must have the height and width of its input, {}, to be "
                        "compared with label maps",
                        output, input.size() == 3 ? to_string({input[1], input[2]}) : to_string(input)));
  }
  if (context.mixes) {
    fail_at(context.origin_of("data.mix"),
            fmt::format("needs one label for each image; the network's output {} has a class for each pixel",
                        output));
  }
}

/// One label for each pixel of an image, logits (N, C, H, W).
class PixelClassification final : public Task {
 public:
  std::string_view name() const override { return "pixel_classification"; }
  bool applies_to(const Shape& output, TargetKind kind) const override {
    return kind == TargetKind::label && output.size() == 4;
  }

  Targets declare_inputs(Program& program, const TaskContext& context, bool) const override {
    check_recipe(context);
    const Shape& output = context.output;
    return {.labels = program.input(input_name::kLabels, {{output[0], output[2], output[3]}, DType::i32}),
            .weights = program.input(input_name::kWeights, {{output[0]}, DType::f32})};
  }

  const std::vector<Metric>& metrics() const override {
    static const std::vector<Metric> table = [] {
      std::vector<Metric> all = class_metrics();
      all.insert(all.end(), mask_metrics().begin(), mask_metrics().end());
      return all;
    }();
    return table;
  }
  const std::vector<MetricSum>& sums() const override { return top_sums(); }
  int64_t classes(const Shape& output) const override { return output[1]; }

  void check_prediction(const TaskContext& context) const override {
    fail_at(
        context.origin_of("model"),
        fmt::format("predict prints one class for each image; the network's output {} has one for each pixel",
                    to_string(context.output)));
  }

  std::vector<PredictedField> predict(std::span<const float>, const PredictionRequest&) const override {
    throw std::logic_error("predictions for each pixel are refused");
  }
};

}  // namespace

std::unique_ptr<Task> pixel_classification_task() {
  return std::make_unique<PixelClassification>();
}

}  // namespace trainer
