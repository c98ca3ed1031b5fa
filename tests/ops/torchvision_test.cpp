// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/ops/fixture.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr int64_t kImages = 4;

/// A row of NETWORKS in scripts/fixtures/make_torchvision_fixtures.py.
struct Published {
  std::string name;
  double gain;
  float rate;
  std::vector<std::string> overrides;  ///< so that nothing is random, and little takes long
};

/// The rule by which that script draws a tensor's values.
Initial drawn(const std::string& name, const Shape& shape, double gain) {
  const auto within = [](double low, double high) {
    return Initial{.kind = Initial::Kind::uniform, .a = low, .b = high, .table = {}};
  };
  const auto fan_in = static_cast<double>(numel(shape) / shape[0]);
  if (shape.size() > 1 && name.ends_with(".weight"))
    return {.kind = Initial::Kind::normal, .a = 0, .b = std::sqrt(gain / fan_in), .table = {}};
  if (name.ends_with(".weight") || name.ends_with(".running_var") || name.ends_with(".layer_scale"))
    return within(0.5, 1.5);
  return within(-0.1, 0.1);
}

/// A batch, drawn as parameters are.
void add_images(Program& program) {
  const double root3 = std::sqrt(3.0);
  const TensorId logits = program.entry(entry_name::kEvaluate).outputs.back().tensor;
  const auto classes = static_cast<double>(program.spec(logits).shape[1]);
  program.persistent("images.0", program.spec(program.find(input_name::kImages)), Role::constant,
                     {.kind = Initial::Kind::uniform, .a = -root3, .b = root3, .table = {}});
  program.persistent("labels.0", {{kImages}, DType::f32}, Role::constant,
                     {.kind = Initial::Kind::uniform, .a = 0, .b = classes, .table = {}});
}

/// With weights by that rule, and the passes that `trainer train` runs by default.
Program program_of(const Published& published) {
  std::vector<std::string> overrides = published.overrides;
  overrides.emplace_back("input=[3, 64, 64]");
  Program program =
      forward_program(network_file("configs/models/" + published.name + ".yaml", overrides), kImages);
  for (Tensor& tensor : program.tensors) {
    const bool is_statistic = tensor.name.ends_with(".running_mean") || tensor.name.ends_with(".running_var");
    if (tensor.role == Role::parameter || is_statistic)
      tensor.initial = drawn(tensor.name, tensor.spec.shape, published.gain);
  }
  run_passes(program, {fuse_residual(), fold_batch_norm(), fuse_relu()});
  if (published.rate > 0) {
    run_passes(program, {autodiff(), fuse_gradient_sum()});
    append_update(*optimizer_from("{name: sgd}"), program, program.entry(entry_name::kTrainStep),
                  {published.rate});
  }
  run_passes(program, {dead_code()});
  add_images(program);
  return program;
}

std::vector<double> evaluated_logits(Session& session, size_t count) {
  session.run(entry_name::kEvaluate);
  std::vector<double> logits = session.output(entry_name::kEvaluate, output_name::kLogits);
  logits.resize(count);
  return logits;
}

/// Within 1e-4 of the results of torchvision's network in double, or three times as near as its own in fp32.
void check_near(const Fixture& fixture, const std::string& tensor, const std::vector<double>& found) {
  INFO(tensor);
  const std::vector<double> expected = fixture.doubles(tensor);
  REQUIRE(found.size() == expected.size());
  double furthest = 0;
  for (size_t i = 0; i < found.size(); ++i) furthest = std::max(furthest, std::abs(found[i] - expected[i]));
  CHECK(furthest < std::max(1e-4, 3 * fixture.doubles(tensor + "_spread")[0]));
}

void check_published(const Published& published) {
  const Fixture fixture("torchvision");
  const std::string& name = published.name;
  const auto backend = make_cpu_backend(2);
  Session session(program_of(published), backend, 1);
  std::vector<float> labels = session.executable().read(session.id("labels.0"));
  for (float& label : labels) label = std::floor(label);
  session.set({{input_name::kImages, session.executable().read(session.id("images.0"))},
               {input_name::kLabels, labels},
               {input_name::kWeights, std::vector<float>(kImages, 1.0f / kImages)}});
  const size_t count = fixture.values(name + "/logits").size();
  check_near(fixture, name + "/logits", evaluated_logits(session, count));
  if (published.rate == 0) return;
  std::vector<double> losses;
  for (size_t step = 0; step < fixture.values(name + "/losses").size(); ++step) {
    session.run(entry_name::kTrainStep);
    losses.push_back(session.output(entry_name::kTrainStep, output_name::kLoss)[0]);
  }
  CHECK(losses.front() - losses.back() > 0.1);  // the loss must change
  check_near(fixture, name + "/losses", losses);
  check_near(fixture, name + "/trained_logits", evaluated_logits(session, count));
}

}  // namespace

TEST_CASE("VGG-16 computes torchvision's logits") {
  check_published(
      {.name = "vgg16", .gain = 2, .rate = 0, .overrides = {"layers[5].vgg_classifier.features=256"}});
}

TEST_CASE("DenseNet-121 computes torchvision's logits") {
  check_published({.name = "densenet121", .gain = 2, .rate = 0, .overrides = {}});
}

TEST_CASE("MobileNetV3-Large computes torchvision's logits and trains as it does") {
  check_published(
      {.name = "mobilenet_v3_large", .gain = 1.5, .rate = 1e-3f, .overrides = {"layers[20].dropout.p=0"}});
}

TEST_CASE("EfficientNet-B0 computes torchvision's logits and trains as it does") {
  check_published(
      {.name = "efficientnet_b0",
       .gain = 2,
       .rate = 1e-3f,
       .overrides = {"layers[13].dropout.p=0", "templates.mbconv.layers[4].stochastic_depth.p=0"}});
}

TEST_CASE("ConvNeXt-Tiny computes torchvision's logits and trains as it does") {
  check_published({.name = "convnext_tiny",
                   .gain = 2,
                   .rate = 1e-3f,
                   .overrides = {"templates.convnext_block.layers[8].stochastic_depth.p=0"}});
}
