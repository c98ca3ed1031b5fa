// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/cast.h"
#include "core/graph/ops/gram_batch_norm.h"
#include "tests/cuda/cases.h"

namespace trainer {
namespace {

struct GramCase {
  int64_t channels, features, rows;
};

/// w, t, s: a product that has a variance, since t / rows is w and a little more.
std::vector<TensorId> product(Sketch& sketch, const GramCase& one) {
  const Shape matrix{one.channels, one.features};
  const auto rows = static_cast<float>(one.rows);
  const std::vector<TensorId> inputs{sketch.input("w", matrix), sketch.input("t", matrix),
                                     sketch.input("s", {one.features})};
  std::vector<float>&t = sketch.values["t"], &w = sketch.values["w"];
  for (size_t i = 0; i < t.size(); ++i) t[i] = rows * (2 * w[i] + t[i] / 16);
  for (float& sum : sketch.values["s"]) sum *= rows / 16;
  return inputs;
}

/// Low types need a tolerance for their rounding, others none.
void compare(Sketch& sketch, TensorId id, const char* name, bool low_ones) {
  Builder& build = sketch.build();
  const bool is_low = build.program().spec(id).dtype != DType::f32;
  if (is_low == low_ones) sketch.output(name, is_low ? build.emit<Cast>({id}, DType::f32) : id);
}

void draft_forward(Sketch& sketch, const GramCase& one, DType dtype, bool low_ones) {
  std::vector<TensorId> inputs = product(sketch, one);
  inputs.push_back(sketch.input("gamma", {one.channels}));
  inputs.push_back(sketch.input("beta", {one.channels}));
  const auto found = sketch.build().emit_all(std::make_shared<GramBatchNorm>(1e-3, one.rows, dtype), inputs);
  const char* const names[] = {"weights", "bias", "mean", "variance"};
  for (size_t o = 0; o < found.size(); ++o) compare(sketch, found[o], names[o], low_ones);
  sketch.loss(sketch.parameter("p", {3, 2}));
}

void draft_backward(Sketch& sketch, const GramCase& one, DType dtype, bool low_ones) {
  std::vector<TensorId> inputs = product(sketch, one);
  inputs.push_back(sketch.input("p", {one.channels, one.features}));
  for (const char* name : {"sum", "gamma", "mean"}) inputs.push_back(sketch.input(name, {one.channels}));
  inputs.push_back(sketch.input("variance", {one.channels}, Values::positive));
  const auto found =
      sketch.build().emit_all(std::make_shared<GramBatchNormBackward>(1e-3, one.rows, dtype, 64), inputs);
  const char* const names[] = {"dw", "dgamma", "d", "e"};
  for (size_t o = 0; o < found.size(); ++o) compare(sketch, found[o], names[o], low_ones);
  sketch.loss(sketch.parameter("q", {3, 2}));
}

}  // namespace

/// Rows of less than a warp, of no whole warps, of more than a block; few rows, whose gradients have large
/// corrections, and many.
void add_gram_batch_norm_cases(std::vector<KernelCase>& cases) {
  for (const GramCase& one :
       {GramCase{3, 1, 10}, GramCase{1, 40, 5}, GramCase{33, 70, 1000}, GramCase{4, 300, 20}}) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      for (const bool low_ones : {false, true}) {
        const std::string text = fmt::format("{} x {}, {} rows, {}", one.channels, one.features, one.rows,
                                             low_ones ? to_string(dtype) : "f32");
        const Tolerances tolerances = low_ones ? narrow_tolerances(dtype) : Tolerances{};
        cases.push_back({"gram_batch_norm " + text,
                         [=](Sketch& sketch) { draft_forward(sketch, one, dtype, low_ones); }, false,
                         tolerances});
        cases.push_back({"gram_batch_norm_backward " + text,
                         [=](Sketch& sketch) { draft_backward(sketch, one, dtype, low_ones); }, false,
                         tolerances});
      }
    }
  }
}

}  // namespace trainer
