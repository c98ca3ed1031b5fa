// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/psnr.h"

#include <fmt/format.h>

#include "tests/cuda/cases.h"

namespace trainer {

void add_psnr_cases(std::vector<KernelCase>& cases) {
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{5, 1, 31, 1}, Shape{3, 3, 7, 5}, Shape{2, 2, 33, 31}}) {
    cases.push_back({fmt::format("psnr {}", to_string(shape)), [=](Sketch& sketch) {
                       const TensorId x = sketch.input("x", shape), targets = sketch.input("targets", shape),
                                      weights = sketch.input("weights", {shape[0]}, Values::positive),
                                      scale = sketch.input("scale", {shape[1]}, Values::positive);
                       if (shape[0] > 1) sketch.values["weights"][1] = 0;
                       sketch.output("psnr", sketch.build().emit<Psnr>({x, targets, weights, scale}));
                       sketch.loss(sketch.parameter("unrelated", {2, 3}));
                     }});
    cases.back().narrow = false;  // it takes f32
  }
}

}  // namespace trainer
