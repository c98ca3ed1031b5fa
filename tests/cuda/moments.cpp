// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include "tests/catch.h"

#include "core/engine/backend_library.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/conv2d.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/two_backends.h"

namespace trainer {
namespace {

struct Normalised {
  Shape x, w;
  Conv2dGeometry geometry;
};

/// As in a residual network; the last has few rows and a number of channels that is not a multiple of eight.
std::vector<Normalised> normalised_convolutions() {
  return {{{4, 3, 28, 28}, {64, 3, 7, 7}, {.kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}}},
          {{3, 64, 11, 9}, {96, 64, 3, 3}, {.kernel = {3, 3}, .padding = {1, 1}}},
          {{4, 64, 9, 7}, {128, 64, 1, 1}, {.kernel = {1, 1}, .stride = {2, 2}}},
          {{3, 16, 7, 5}, {20, 16, 1, 1}, {.kernel = {1, 1}}}};
}

TensorId in_low(Sketch& sketch, const char* name, const Shape& shape, DType low) {
  return sketch.build().emit<Cast>({sketch.parameter(name, shape)}, low);
}

/// y = batch_norm(conv(x, w) + r), with the updates of running statistics.
Draft draft_normalised(const Normalised& one, DType low, bool residual) {
  return [=](Sketch& sketch) {
    Builder& build = sketch.build();
    const TensorId x = in_low(sketch, "x", one.x, low), w = in_low(sketch, "w", one.w, low);
    const TensorId conv = build.emit<Conv2d>({x, w, kNone}, one.geometry);
    const TensorId r = residual ? in_low(sketch, "r", build.shape(conv), low) : kNone;
    const TensorId gamma = sketch.parameter("gamma", {one.w[0]}, Values::positive);
    const auto y = build.emit_all(std::make_shared<BatchNorm>(1e-3),
                                  {conv, gamma, sketch.parameter("beta", {one.w[0]}), r});
    const TensorId wide = build.emit<Cast>({y[0]}, DType::f32);
    sketch.output("y", wide), sketch.output("mean", y[1]), sketch.output("variance", y[2]);
    sketch.loss(wide);
  };
}

/// Engines of cuDNN that sum their results do it by atomic additions, in any order.
Tolerances of_sums(DType low, bool repeats = false) {
  Tolerances tolerances = narrow_tolerances(low);
  tolerances.repeats = repeats;
  return tolerances;
}

void check_moments(const Backend& gpu, bool repeats = false) {
  for (const Normalised& one : normalised_convolutions()) {
    for (const DType low : {DType::f16, DType::bf16}) {
      INFO(to_string(one.x) << " by " << to_string(one.w) << " in " << to_string(low));
      for (const bool residual : {false, true})
        check_backend(gpu, draft_normalised(one, low, residual), 1, of_sums(low, repeats));
    }
  }
}

OpContext measured(const Conv2d& op, const Normalised& one, DType low) {
  OpContext context{.op = op, .inputs = {{one.x, low}, {one.w, low}}, .outputs = {}};
  context.inputs.resize(Conv2d::kInputs);
  context.outputs = op.infer(context.inputs);
  return context;
}

}  // namespace

TEST_CASE("normalisations whose convolutions measure for them agree with the reference") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  for (const Normalised& one : normalised_convolutions()) {
    for (const DType low : {DType::f16, DType::bf16}) {
      const Conv2d op(one.geometry, false, true);
      const auto refusal = gpu->planner->why_not(measured(op, one, low));
      CAPTURE(to_string(one.x), to_string(low), refusal.value_or(""));
      CHECK(refusal.has_value() == (one.x[1] <= 4));  // cuDNN is slow there
      if (refusal) continue;
      CHECK(gpu->planner->select(measured(op, one, low), OpenLayouts(3)).implementation == "cudnn");
    }
  }
  check_moments(*gpu);
}

TEST_CASE("moments are right whatever timing chose, perhaps a pass over what cuDNN has written") {
  if (!cuda_or_skip()) return;
  Tuning tuning;
  check_moments(load_backend("cuda", BackendRequest{.tuning = &tuning}));
  CHECK(std::ranges::any_of(tuning.fastest,
                            [](const auto& known) { return known.first.ends_with(" moments"); }));
}

TEST_CASE("with run.deterministic normalisations after convolutions repeat their bits") {
  if (!cuda_or_skip()) return;
  const Backend gpu = load_backend("cuda", BackendRequest{.deterministic = true});
  const Normalised one = normalised_convolutions()[1];
  const Conv2d op(one.geometry, false, true);
  CHECK(gpu.planner->why_not(measured(op, one, DType::f16)));
  check_moments(gpu, true);
}

TEST_CASE("a convolution that is computed again has its engine, though nobody wants its moments then") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  const Normalised one = normalised_convolutions()[1];
  check_backend(
      *gpu,
      [&](Sketch& sketch) {
        const TensorId x = in_low(sketch, "x", one.x, DType::f16), w = in_low(sketch, "w", one.w, DType::f16);
        const TensorId y = sketch.build().emit<Conv2d>({x, w, kNone}, one.geometry, false, true);
        sketch.output("y", sketch.build().emit<Cast>({y}, DType::f32));
        sketch.loss(sketch.parameter("p", {3}));
      },
      1, narrow_tolerances(DType::f16));
}

TEST_CASE("a variance has ten bits where the mean is four standard deviations") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  const auto draft = [](Sketch& sketch) {
    Builder& build = sketch.build();
    const TensorId x = build.emit<Cast>({sketch.input("x", {64, 8, 28, 28})}, DType::f16);
    const TensorId w = build.emit<Cast>({sketch.input("w", {8, 8, 1, 1})}, DType::f16);
    for (float& value : sketch.values["x"]) value += 4;
    for (size_t i = 0; i < 64; ++i) sketch.values["w"][i] = i % 9 == 0 ? 1.0f : 0.0f;  // y = x
    const TensorId y = build.emit<Conv2d>({x, w, kNone}, Conv2dGeometry{});
    const TensorId gamma = sketch.input("gamma", {8});
    const auto norm = build.emit_all(std::make_shared<BatchNorm>(1e-5), {y, gamma, gamma, kNone});
    sketch.output("mean", norm[1]), sketch.output("variance", norm[2]);
    sketch.loss(sketch.parameter("p", {3}));
  };
  Tolerances tolerances = of_sums(DType::f16);
  tolerances.forward = 1.0 / 1024;
  check_backend(*gpu, draft, 1, tolerances);
}

}  // namespace trainer
