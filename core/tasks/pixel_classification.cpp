// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

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
  bool applies_to(const Shape& output, TargetKind kind, InputKind) const override {
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

  void check_prediction(const TaskContext&) const override {}

  /// The classes that pixels have, the most frequent first, and the fraction of the pixels that have each.
  std::vector<PredictedField> predict(std::span<const float> output,
                                      const PredictionRequest& request) const override {
    const std::vector<int64_t> counts = pixels_of_classes(output, static_cast<size_t>(request.output[0]));
    const std::vector<float> frequency(counts.begin(), counts.end());
    const auto pixels = static_cast<double>(numel({request.output[1], request.output[2]}));
    std::vector<int64_t> classes;
    std::vector<std::string> names;
    std::vector<double> fractions;
    for (const size_t c : largest(frequency, request.top.value_or(counts.size()))) {
      if (counts[c] == 0 && !request.all) continue;
      classes.push_back(static_cast<int64_t>(c));
      fractions.push_back(static_cast<double>(counts[c]) / pixels);
      if (c < request.class_names.size()) names.push_back(request.class_names[c]);
    }
    std::vector<PredictedField> fields = {{"classes", classes}};
    if (names.size() == classes.size()) fields.push_back({"names", names});
    fields.push_back({"fractions", fractions, true});
    return fields;
  }

  Drawing drawing() const override { return Drawing::masks; }

  bool averages_mirrored() const override { return true; }
  void average(std::span<float> output, std::span<const float> mirrored, const Shape& shape) const override {
    const auto area = static_cast<size_t>(shape[1] * shape[2]), width = static_cast<size_t>(shape[2]);
    std::vector<float> here(static_cast<size_t>(shape[0])), there(here.size());
    for (size_t place = 0; place < area; ++place) {
      const size_t other = place - place % width + (width - 1 - place % width);
      for (size_t c = 0; c < here.size(); ++c)
        here[c] = output[c * area + place], there[c] = mirrored[c * area + other];
      average_probabilities(here, there);
      for (size_t c = 0; c < here.size(); ++c) output[c * area + place] = here[c];
    }
  }

 private:
  /// The number of pixels of each class: that of their largest logit, the lower one among equals.
  static std::vector<int64_t> pixels_of_classes(std::span<const float> logits, size_t classes) {
    const size_t pixels = logits.size() / classes;
    std::vector<int64_t> counts(classes);
    for (size_t i = 0; i < pixels; ++i) {
      size_t best = 0;
      for (size_t c = 1; c < classes; ++c) {
        if (logits[c * pixels + i] > logits[best * pixels + i]) best = c;
      }
      ++counts[best];
    }
    return counts;
  }
};

}  // namespace

std::unique_ptr<Task> pixel_classification_task() {
  return std::make_unique<PixelClassification>();
}

}  // namespace trainer
