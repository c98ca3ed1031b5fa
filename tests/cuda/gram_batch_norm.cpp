// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include "tests/catch.h"

#include "core/engine/backend_library.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/gram_batch_norm.h"
#include "core/step/stages.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/two_backends.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

namespace trainer {
namespace {

/// No dimension divides a tile.
const Shape kImages{3, 24, 9, 11};
constexpr int64_t kChannels = 136;

struct Wanted {
  DType low;
  bool relu, residual;
};

TensorId product(Sketch& sketch, const char* name, TensorId x, int64_t channels, DType low) {
  Builder& build = sketch.build();
  const TensorId w = sketch.parameter(name, {channels, build.shape(x)[1], 1, 1});
  for (float& value : sketch.values[name]) value /= 8;
  return build.emit<Conv2d>({x, build.emit<Cast>({w}, low), kNone}, Conv2dGeometry{});
}

/// relu(batch_norm(w x) + r), which two products read. The residual keeps the sum away from zero, if a
/// rounded value might pass a relu that the exact one does not.
Draft draft_of(const Wanted& wanted) {
  return [=](Sketch& sketch) {
    Builder& build = sketch.build();
    const TensorId x = build.emit<Cast>({sketch.parameter("x", kImages)}, wanted.low);
    for (float& value : sketch.values["x"]) value = std::max(value, 0.0f) + 0.25f;  // as after a relu
    const TensorId y = product(sketch, "w", x, kChannels, wanted.low);
    TensorId r = kNone;
    if (wanted.residual) {
      r = build.emit<Cast>({sketch.parameter("r", build.shape(y))}, wanted.low);
      for (float& value : sketch.values["r"]) value += value < 0 ? -8.0f : 8.0f;
    }
    const TensorId gamma = sketch.parameter("gamma", {kChannels}, Values::positive);
    const TensorId beta = sketch.parameter("beta", {kChannels});
    if (!wanted.residual) {
      for (float& value : sketch.values["beta"]) value += value < 0 ? -8.0f : 8.0f;
    }
    const auto z = build.emit_all(std::make_shared<BatchNorm>(1e-3, wanted.relu), {y, gamma, beta, r});
    sketch.output("mean", z[1]), sketch.output("variance", z[2]);
    const TensorId first = product(sketch, "first", z[0], 8, wanted.low),
                   second = product(sketch, "second", z[0], 16, wanted.low);
    const TensorId third = product(sketch, "third", first, 16, wanted.low);
    const TensorId sum = build.emit<Binary>({third, second}, Binary::Kind::add);
    const TensorId wide = build.emit<Cast>({sum}, DType::f32);
    sketch.output("z", build.emit<Cast>({z[0]}, DType::f32));
    sketch.output("sum", wide);
    sketch.loss(wide);
  };
}

/// Number of normalisations that the device merges into products.
int64_t folded(const Draft& draft, const Backend& gpu) {
  Sketch sketch(1);
  draft(sketch);
  run_passes(sketch.program, {autodiff(), fuse_gradient_sum(), gram_batch_norm(*gpu.planner, 0)});
  return std::ranges::count_if(sketch.program.entry(entry_name::kTrainStep).nodes, [](const Node& node) {
    return dynamic_cast<const GramBatchNorm*>(node.op.get()) != nullptr;
  });
}

void check_all(const Backend& gpu) {
  for (const DType low : {DType::f16, DType::bf16}) {
    for (const auto& [relu, residual] :
         {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
      INFO(to_string(low) << (relu ? " relu" : "") << (residual ? " residual" : ""));
      const Draft draft = draft_of({low, relu, residual});
      CHECK(folded(draft, gpu) == 1);
      check_backend(gpu, draft, 1, narrow_tolerances(low));
    }
  }
}

}  // namespace

TEST_CASE("normalisations within products agree with the reference, and so do all gradients") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  check_all(*gpu);
  Tuning tuning;
  check_all(load_backend("cuda", BackendRequest{.tuning = &tuning}));
}

TEST_CASE("a product normalises in f16 and bf16 alone") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  CHECK(folded(draft_of({DType::f32, false, false}), *gpu) == 0);
}

/// The errors of variances relative to those of x, whose channels y has twice, with means of four standard
/// deviations.
double error_of_variances(const Backend& gpu, const Shape& shape) {
  Sketch sketch(1);
  Builder& build = sketch.build();
  const int64_t features = shape[1], area = shape[2] * shape[3];
  const TensorId x = build.emit<Cast>({sketch.parameter("x", shape)}, DType::f16);
  for (float& value : sketch.values["x"]) value += 4;
  const TensorId y = product(sketch, "w", x, 2 * features, DType::f16);
  for (size_t i = 0; i < sketch.values["w"].size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    sketch.values["w"][i] = place % features == place / features % features ? 1.0f : 0.0f;
  }
  const TensorId gamma = sketch.parameter("gamma", {2 * features}),
                 beta = sketch.parameter("beta", {2 * features});
  const auto norm = build.emit_all(std::make_shared<BatchNorm>(1e-5), {y, gamma, beta, kNone});
  sketch.output("variance", norm[2]);
  sketch.loss(build.emit<Cast>({norm[0]}, DType::f32));
  run_passes(sketch.program, {autodiff(), gram_batch_norm(*gpu.planner, 0)});
  std::vector<double> sums(static_cast<size_t>(2 * features)), squares = sums, expected;
  for (size_t i = 0; i < sketch.values["x"].size(); ++i) {
    const auto c = static_cast<size_t>(static_cast<int64_t>(i) / area % features);
    const double value = sketch.values["x"][i] - 4.0;
    sums[c] += value, squares[c] += value * value;
  }
  const auto rows = static_cast<double>(shape[0] * area);
  for (size_t c = 0; c < sums.size(); ++c) {
    const size_t from = c % static_cast<size_t>(features);
    expected.push_back(squares[from] / rows - sums[from] / rows * sums[from] / rows);
  }
  Session session(sketch.program, gpu);
  session.set(sketch.values);
  session.run(entry_name::kTrainStep);
  return relative_error(session.output(entry_name::kTrainStep, "variance"), expected);
}

TEST_CASE("a variance by a Gram matrix has ten bits where the mean is four standard deviations") {
  const auto gpu = cuda_or_skip();
  if (gpu) CHECK(error_of_variances(*gpu, {16, 8, 28, 28}) <= 1.0 / 1024);
}

TEST_CASE("variances that rounding takes away are counted for the log") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  CHECK(gpu->device->remarks().empty());
  Sketch sketch(1);
  draft_of({DType::bf16, false, false})(sketch);
  run_passes(sketch.program, {autodiff(), gram_batch_norm(*gpu->planner, 0)});
  Session session(sketch.program, *gpu);
  session.set(sketch.values);
  session.run(entry_name::kTrainStep);
  CHECK(gpu->device->remarks().empty());
  std::ranges::fill(sketch.values["x"], 1.0f);  // every channel is constant
  for (float& value : sketch.values["w"]) value = std::abs(value) + 1;
  session.set(sketch.values);
  for (int i = 0; i < 2; ++i) session.run(entry_name::kTrainStep);
  const std::vector<std::string> remarks = gpu->device->remarks();
  REQUIRE(remarks.size() == 1);
  CHECK_THAT(remarks[0], Catch::Matchers::ContainsSubstring(fmt::format("lost {} variances", 2 * kChannels)));
}

// Tensor cores truncate values that they add to large sums.
TEST_CASE("a variance by a Gram matrix has ten bits where it sums up 800,000 rows", "[.large]") {
  const auto gpu = cuda_or_skip();
  if (gpu) CHECK(error_of_variances(*gpu, {256, 64, 56, 56}) <= 1.0 / 1024);
}

TEST_CASE("small gradients in f16 keep what the normalisation takes away from them") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  Sketch sketch(1);
  Builder& build = sketch.build();
  const Shape shape{16, 8, 28, 28};
  const TensorId x = build.emit<Cast>({sketch.parameter("x", shape)}, DType::f16);
  const TensorId y = product(sketch, "w", x, 32, DType::f16);
  const TensorId gamma = sketch.parameter("gamma", {32}, Values::positive),
                 beta = sketch.parameter("beta", {32});
  const TensorId norm = build.emit_all(std::make_shared<BatchNorm>(1e-5), {y, gamma, beta, kNone})[0];
  const TensorId small = sketch.input("small", build.shape(norm));
  for (float& value : sketch.values["small"]) value = 0x1p-12f;
  sketch.loss(build.emit<Binary>({build.emit<Cast>({norm}, DType::f32), small}, Binary::Kind::mul));
  run_passes(sketch.program, {autodiff()});
  Entry& entry = sketch.program.entry(entry_name::kTrainStep);
  for (const auto& [parameter, gradient] : entry.gradients)
    entry.outputs.push_back({"gradient of " + sketch.program.tensor(parameter).name, gradient});
  // The gradient of a bias in front of a relu in front of x.
  const auto sums = [&](const Backend& backend) {
    Session session(sketch.program, backend);
    session.set(sketch.values);
    session.run(entry_name::kTrainStep);
    const std::vector<double> dx = session.output(entry_name::kTrainStep, "gradient of x");
    std::vector<double> found(8);
    for (size_t i = 0; i < dx.size(); ++i) {
      if (sketch.values["x"][i] > 0) found[i / (28 * 28) % 8] += dx[i];
    }
    return found;
  };
  const std::vector<double> expected = sums(make_reference_backend());
  run_passes(sketch.program, {gram_batch_norm(*gpu->planner, 0)});
  CHECK(relative_error(sums(*gpu), expected) <= 0.01);
}

TEST_CASE("a value that is not a number reaches statistics and gradients, though cuBLASLt's relu drops it") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  Sketch sketch(1);
  draft_of({DType::bf16, true, true})(sketch);
  sketch.values["x"][77] = std::numeric_limits<float>::quiet_NaN();
  run_passes(sketch.program, {autodiff(), fuse_gradient_sum(), gram_batch_norm(*gpu->planner, 0)});
  Entry& entry = sketch.program.entry(entry_name::kTrainStep);
  for (const auto& [parameter, gradient] : entry.gradients)
    entry.outputs.push_back({sketch.program.tensor(parameter).name, gradient});
  Session session(sketch.program, *gpu);
  session.set(sketch.values);
  session.run(entry_name::kTrainStep);
  for (const char* name : {"variance", "w", "gamma"}) {
    INFO(name);
    const std::vector<double> values = session.output(entry_name::kTrainStep, name);
    CHECK(std::ranges::any_of(values, [](double value) { return std::isnan(value); }));
  }
}

}  // namespace trainer
