// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/graph/ops/psnr.h"
#include "core/tasks/table.h"

namespace trainer {
namespace {

constexpr const char* kPsnr = "psnr";

void check_reconstruction(const TaskContext& context) {
  if (context.input_kind != InputKind::pixels) {
    fail_at(context.origin_of("loss.name"),
            "mse compares the network's output with the images that it reads; for a network of tokens use "
            "cross_entropy");
  }
  const Shape of_sample(context.output.begin() + 1, context.output.end());
  if (of_sample != context.input) {
    fail_at(context.origin_of("model"),
            fmt::format(
                "with loss.name: mse the network's output must have the shape of its input, {}, got {}; end "
                "the network with a layer of that shape",
                to_string(context.input), to_string(of_sample)));
  }
  if (context.mixes) {
    fail_at(context.origin_of("data.mix"),
            "mixes labels, and with loss.name: mse there are none; remove data.mix");
  }
}

TensorId build_psnr(Builder& build, TensorId output, const Targets& targets) {
  const TensorId scale = pixel_constants(build.program(), build.entry().name, *targets.pixels).scale;
  return build.emit<Psnr>({output, targets.values, targets.weights, scale});
}

/// The sample itself, as the network reads it: augmented and normalised. It is not copied, unless the network
/// reads it corrupted (Vincent et al. 2008, "Extracting and composing robust features with denoising
/// autoencoders").
class Reconstruction final : public Task {
 public:
  std::string_view name() const override { return "reconstruction"; }
  bool applies_to(const Shape&, TargetKind kind, InputKind input) const override {
    return kind == TargetKind::numbers && !is_of_table(input);
  }

  Targets declare_inputs(Program& program, const TaskContext& context, bool) const override {
    check_reconstruction(context);
    const TensorId images = program.find(input_name::kImages);
    return {.values = context.corrupts
                          ? program.input(input_name::kCleanImages, {program.spec(images).shape, DType::f32})
                          : images,
            .weights = program.input(input_name::kWeights, {{context.output[0]}, DType::f32})};
  }

  const std::vector<Metric>& metrics() const override {
    static const std::vector<Metric> table = {
        {.name = kPsnr,
         .help =
             "mean over the samples of the peak signal-to-noise ratio in dB, where black is 0 and white 255",
         .sums = {kPsnr},
         .value = mean_of_samples}};
    return table;
  }
  const std::vector<MetricSum>& sums() const override {
    static const std::vector<MetricSum> table = {{kPsnr, build_psnr}};
    return table;
  }
  int64_t classes(const Shape&) const override { return 0; }

  void check_prediction(const TaskContext& context) const override { check_reconstruction(context); }

  /// The mean squared error in the network's numbers, as `eval` gives it.
  std::vector<PredictedField> predict(std::span<const float> output,
                                      const PredictionRequest& request) const override {
    double sum = 0;
    for (size_t i = 0; i < output.size(); ++i) {
      const double error = static_cast<double>(output[i]) - static_cast<double>(request.input[i]);
      sum += error * error;
    }
    return {{"mse", sum / static_cast<double>(output.size())}};
  }

  Drawing drawing() const override { return Drawing::image; }
  /// The reconstruction, as bytes again.
  PredictedImage draw(std::span<const float> output, const Shape& shape,
                      const PixelNumbers& numbers) const override {
    const size_t area = output.size() / static_cast<size_t>(shape[0]);
    PredictedImage image{shape, std::vector<uint8_t>(output.size())};
    for (size_t i = 0; i < output.size(); ++i) {
      const float byte = (output[i] - numbers.offset[i / area]) / numbers.scale[i / area];
      image.pixels[i] = static_cast<uint8_t>(std::lround(std::clamp(byte, 0.0f, 255.0f)));
    }
    return image;
  }
};

}  // namespace

std::unique_ptr<Task> reconstruction_task() {
  return std::make_unique<Reconstruction>();
}

}  // namespace trainer
