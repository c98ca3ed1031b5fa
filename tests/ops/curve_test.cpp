// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "cpu/backend.h"
#include "tests/ops/fixture.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr int64_t kBatch = 32;
constexpr int kBatches = 4;

/// Batches are drawn as parameters are, from their names, by the same rule as in scripts/make_fixtures.py.
void add_batches(Program& program) {
  const double root3 = std::sqrt(3.0);
  for (int i = 0; i < kBatches; ++i) {
    program.persistent(fmt::format("images.{}", i), {{kBatch, 1, 28, 28}, DType::f32}, Role::constant,
                       {.kind = Initial::Kind::uniform, .a = -root3, .b = root3, .table = {}});
    program.persistent(fmt::format("labels.{}", i), {{kBatch}, DType::f32}, Role::constant,
                       {.kind = Initial::Kind::uniform, .a = 0, .b = 10, .table = {}});
  }
}

std::vector<double> curve(const std::string& network, size_t steps, int threads) {
  const auto optimizer = optimizer_from("{name: sgd, momentum: 0.9}");
  Program program = training_program(network_from(network), kBatch, *optimizer, {0.01f}, {fuse_relu()});
  add_batches(program);
  const auto backend = make_cpu_backend(threads);
  Session session(program, *backend, 1);
  session.set("weights", std::vector<float>(kBatch, 1.0f / kBatch));
  std::vector<double> losses;
  for (size_t step = 0; step < steps; ++step) {
    const size_t batch = step % kBatches;
    std::vector<float> images = session.executable().read(session.id(fmt::format("images.{}", batch)));
    std::vector<float> labels = session.executable().read(session.id(fmt::format("labels.{}", batch)));
    for (float& label : labels) label = std::floor(label);
    session.set({{"images", images}, {"labels", labels}});
    session.run("train_step");
    losses.push_back(session.output("train_step", "loss")[0]);
  }
  return losses;
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

/// Each loss lies as near to PyTorch's as its own do with other threads and layouts, or within 1e-4.
void check_curve(const std::string& name, const std::string& network) {
  const Fixture fixture("curves");
  const std::vector<double> expected = fixture.doubles(name + "/losses"),
                            spread = fixture.doubles(name + "/spread");
  CHECK(expected.back() < expected.front() - 0.2);  // there is something to follow
  for (int threads : {1, 2}) {
    const std::vector<double> losses = curve(network, expected.size(), threads);
    for (size_t step = 0; step < losses.size(); ++step) {
      INFO(name << ", step " << step << ", " << threads << " threads");
      CHECK(std::abs(losses[step] - expected[step]) < std::max(1e-4, 3 * spread[step]));
    }
  }
}

}  // namespace

TEST_CASE("the shipped MLP trains as in PyTorch") {
  check_curve("mlp", source_text("configs/models/mlp.yaml"));
}

TEST_CASE("a convolutional network trains as in PyTorch") {
  check_curve("cnn", kCnn);
}
