// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/group_norm.h"
#include "core/graph/ops/layer_norm.h"
#include "core/graph/ops/softmax.h"
#include "tests/cuda/cases.h"

namespace trainer {
namespace {

TensorId layer_norm_of(Sketch& sketch, const std::string& name, TensorId x, bool rms, bool bias) {
  const Shape features{sketch.build().shape(x).back()};
  const TensorId gamma = sketch.parameter(name + ".weight", features);
  const TensorId beta = bias ? sketch.parameter(name + ".bias", features) : kNone;
  return sketch.build().emit<LayerNorm>({x, gamma, beta, kNone}, 1e-3, rms);
}

/// Groups within eight channels and across them; an image of several parts; instances.
void add_group_norm_cases(std::vector<KernelCase>& cases) {
  struct GroupedCase {
    Shape x;
    int64_t groups;
  };
  for (const GroupedCase& one : {GroupedCase{{2, 12, 3, 5}, 4}, GroupedCase{{3, 33, 2, 3}, 1},
                                 GroupedCase{{1, 40, 5, 1}, 40}, GroupedCase{{2, 6, 31, 23}, 3}}) {
    cases.push_back(differentiable(fmt::format("group_norm {} in {} groups", to_string(one.x), one.groups),
                                   [=](Sketch& sketch) {
                                     const TensorId gamma = sketch.parameter("gamma", {one.x[1]}),
                                                    beta = sketch.parameter("beta", {one.x[1]});
                                     return sketch.build().emit<GroupNorm>(
                                         {sketch.parameter("x", one.x), gamma, beta}, one.groups, 1e-3);
                                   }));
  }
}

void add_softmax_cases(std::vector<KernelCase>& cases) {
  for (const Shape& shape :
       {Shape{1, 2}, Shape{3, 31}, Shape{2, 5, 33}, Shape{2, 1031}, Shape{2, 17, 3, 5}}) {
    for (const bool log : {false, true}) {
      cases.push_back(differentiable(
          (log ? "log_softmax " : "softmax ") + to_string(shape),
          [=](Sketch& sketch) { return sketch.build().emit<Softmax>({sketch.parameter("x", shape)}, log); }));
      cases.back().narrow = false;  // it takes f32
    }
  }
}

}  // namespace

/// Rows of a warp, of a block, and more rows than a part has; beside them a residual stream, which fusion
/// makes one pass of.
void add_norm_cases(std::vector<KernelCase>& cases) {
  add_group_norm_cases(cases);
  add_softmax_cases(cases);
  for (const Shape& shape : {Shape{1, 2}, Shape{3, 31}, Shape{2, 5, 264}, Shape{3, 1031}, Shape{300, 7}}) {
    for (const bool rms : {false, true}) {
      cases.push_back(differentiable(
          fmt::format("{} {}", rms ? "rms_norm" : "layer_norm", to_string(shape)), [=](Sketch& sketch) {
            return layer_norm_of(sketch, "norm", sketch.parameter("x", shape), rms, !rms);
          }));
    }
  }
  for (const Shape& shape : {Shape{2, 3, 33}, Shape{2, 1040}}) {
    for (const bool rms : {false, true}) {
      cases.push_back(differentiable(
          fmt::format("residual stream {}{}", to_string(shape), rms ? " rms" : ""), [=](Sketch& sketch) {
            const TensorId x = sketch.parameter("x", shape);
            const TensorId branch = sketch.build().emit<Binary>(
                {layer_norm_of(sketch, "first", x, rms, false), sketch.parameter("w", shape)},
                Binary::Kind::mul);
            const TensorId s = sketch.build().emit<Binary>({x, branch}, Binary::Kind::add);
            const TensorId y = layer_norm_of(sketch, "second", s, rms, true);
            return sketch.build().emit<Binary>({s, y}, Binary::Kind::mul);
          }));
    }
  }
}

}  // namespace trainer
