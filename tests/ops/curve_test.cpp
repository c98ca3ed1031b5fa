// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include "tests/catch.h"

#include "cpu/backend.h"
#include "tests/ops/fixture.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr int kCurveBatches = 4;
/// Steps after which the logits in evaluation are compared; deep networks amplify rounding with each.
constexpr size_t kEvaluatedAfter = 1;

/// Networks that the tests below train: rows of CURVES in scripts/fixtures/curves.py.
struct Training {
  std::string name;  ///< of its tensors in the fixture
  Network network;
  int64_t batch;
  float lr;
  std::string loss = "cross_entropy";
  std::string fixture = "curves";
};

/// Batches are drawn as parameters are, from their names, by the same rule as in scripts/fixtures/draws.py.
void add_batches(Program& program) {
  const double root3 = std::sqrt(3.0);
  const Shape images = program.spec(program.find(input_name::kImages)).shape;
  const TensorId logits = program.entry(entry_name::kEvaluate).outputs.back().tensor,
                 targets = program.find(input_name::kTargets);
  const TensorId answers = targets != kNone ? targets : program.find(input_name::kLabels);
  const double classes = targets != kNone ? 2 : static_cast<double>(program.spec(logits).shape[1]);
  for (int i = 0; i < kCurveBatches; ++i) {
    program.persistent(fmt::format("images.{}", i), {images, DType::f32}, Role::constant,
                       {.kind = Initial::Kind::uniform, .a = -root3, .b = root3, .table = {}});
    if (answers == kNone) continue;  // the images are their own
    program.persistent(fmt::format("labels.{}", i), {program.spec(answers).shape, DType::f32}, Role::constant,
                       {.kind = Initial::Kind::uniform, .a = 0, .b = classes, .table = {}});
  }
}

/// With the passes that `trainer train` runs by default.
Program program_of(const Training& training) {
  Program program = forward_program(training.network, training.batch, 1, loss_from(training.loss).get());
  run_passes(program, {fuse_residual(), fold_batch_norm(), fuse_relu(), autodiff(), fuse_gradient_sum()});
  append_update(*optimizer_from("{name: sgd, momentum: 0.9}"), program, program.entry(entry_name::kTrainStep),
                {training.lr});
  run_passes(program, {dead_code()});
  add_batches(program);
  return program;
}

void give_batch(Session& session, const Program& program, size_t batch) {
  std::vector<float> images = session.executable().read(session.id(fmt::format("images.{}", batch)));
  session.set({{input_name::kImages, images}});
  for (const char* name : {input_name::kLabels, input_name::kTargets}) {
    if (program.find(name) == kNone) continue;
    std::vector<float> labels = session.executable().read(session.id(fmt::format("labels.{}", batch)));
    for (float& label : labels) label = std::floor(label);
    session.set({{name, labels}});
  }
}

struct Curve {
  std::vector<double> losses;
  std::vector<double> logits;  ///< of the last batch, in evaluation
};

Curve train(const Training& training, size_t steps, int threads) {
  const auto backend = make_cpu_backend(threads);
  const Program program = program_of(training);
  Session session(program, backend, 1);
  const auto rows = static_cast<size_t>(training.batch);
  session.set(input_name::kWeights, std::vector<float>(rows, 1.0f / static_cast<float>(rows)));
  Curve curve;
  for (size_t step = 0; step < steps; ++step) {
    give_batch(session, program, step % kCurveBatches);
    session.run(entry_name::kTrainStep);
    curve.losses.push_back(session.output(entry_name::kTrainStep, output_name::kLoss)[0]);
    if (step + 1 != kEvaluatedAfter) continue;
    give_batch(session, program, kCurveBatches - 1);
    session.run(entry_name::kEvaluate);
    curve.logits = session.output(entry_name::kEvaluate, output_name::kLogits);
  }
  return curve;
}

/// Each loss is as near to PyTorch's as PyTorch's own with other threads and layouts has been so far, or
/// within 1e-4. Once rounding has driven curves apart they cross again, which brings none nearer. So are the
/// logits of two samples in evaluation, by their norm.
void check_curve(const Training& training, const std::vector<int>& thread_counts = {1, 2}) {
  const Fixture fixture(training.fixture);
  const std::string& name = training.name;
  const std::vector<double> expected = fixture.doubles(name + "/losses"),
                            spread = fixture.doubles(name + "/spread");
  const double largest = std::max(1e-4, 3 * *std::max_element(spread.begin(), spread.end()));
  CHECK(expected.front() - expected.back() > 5 * largest);  // the loss must change
  for (int threads : thread_counts) {
    Curve curve = train(training, expected.size(), threads);
    const std::vector<double> logits = fixture.doubles(name + "/logits");
    curve.logits.resize(logits.size());
    CHECK(relative_error(curve.logits, logits) <
          std::max(1e-4, 3 * fixture.doubles(name + "/logits_spread")[0]));
    double bound = 1e-4;
    for (size_t step = 0; step < expected.size(); ++step) {
      INFO(name << ", step " << step << ", " << threads << " threads");
      bound = std::max(bound, 3 * spread[step]);
      CHECK(std::abs(curve.losses[step] - expected[step]) < bound);
    }
  }
}

const char* const kCnn = R"(
input: [1, 28, 28]
layers:
  - conv2d: {out_channels: 32, kernel_size: 3, name: conv1}
  - relu
  - conv2d: {out_channels: 64, kernel_size: 3, name: conv2}
  - relu
  - max_pool2d: 2
  - flatten
  - linear: {out_features: 128, name: fc1}
  - relu
  - linear: {out_features: 10, name: fc2}
)";

}  // namespace

TEST_CASE("the shipped MLP trains as in PyTorch") {
  check_curve({"mlp", network_file("configs/models/mlp.yaml"), 32, 0.01f});
}

TEST_CASE("a convolutional network trains as in PyTorch") {
  check_curve({"cnn", network_from(kCnn), 32, 0.01f});
}

TEST_CASE("ResNet-18 trains as in PyTorch") {
  check_curve({"resnet18", network_file("configs/models/resnet18_32.yaml"), 8, 0.001f}, {2});
}

TEST_CASE("MobileNetV2 without dropout trains as in PyTorch") {
  const std::vector<std::string> overrides = {"input=[3, 64, 64]", "layers[19].dropout.p=0"};
  check_curve({"mobilenet_v2", network_file("configs/models/mobilenet_v2.yaml", overrides), 32, 0.01f}, {2});
}

TEST_CASE("a network with several labels for each image trains as in PyTorch") {
  check_curve({"multi_label", network_from(kCnn), 32, 0.05f,
               "{name: binary_cross_entropy, pos_weight: [0.5, 1, 2, 1, 1, 3, 1, 0.25, 1, 1]}",
               "element_curves"});
}

TEST_CASE("the convolutional autoencoder trains as in PyTorch, and has as many parameters") {
  const Training training{
      "autoencoder", network_file("configs/models/conv_autoencoder.yaml"), 32, 0.3f, "mse", "element_curves"};
  check_curve(training);
  int64_t parameters = 0;
  for (const Tensor& tensor : program_of(training).tensors)
    parameters += tensor.role == Role::parameter ? numel(tensor.spec.shape) : 0;
  CHECK(static_cast<double>(parameters) == Fixture("element_curves").doubles("autoencoder/parameters")[0]);
}

TEST_CASE("the small U-Net trains as in PyTorch") {
  check_curve({"unet", network_file("configs/models/unet_small.yaml", {"input=[3, 32, 32]"}), 8, 0.01f}, {2});
}
