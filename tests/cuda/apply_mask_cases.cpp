// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/apply_mask.h"

#include <limits>

#include "tests/cuda/cases.h"

namespace trainer {

void add_apply_mask_cases(std::vector<KernelCase>& cases) {
  for (const Shape& shape : {Shape{1}, Shape{31}, Shape{7, 3, 3, 3}, Shape{9001}}) {
    cases.push_back({"apply_mask " + to_string(shape),
                     [=](Sketch& sketch) {
                       const TensorId x = sketch.input("x", shape), mask = sketch.pixels("mask", shape);
                       // What is masked does not matter.
                       sketch.values["x"][0] = std::numeric_limits<float>::quiet_NaN();
                       sketch.values["mask"][0] = 0;
                       for (size_t i = 1; i < sketch.values["mask"].size(); i += 3)
                         sketch.values["mask"][i] = 0;
                       sketch.output("y", sketch.build().emit<ApplyMask>({x, mask}));
                       sketch.loss(sketch.parameter("p", {3}));
                     },
                     false});
  }
}

}  // namespace trainer
