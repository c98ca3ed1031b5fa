// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/soft_cross_entropy.h"

#include <fmt/format.h>

#include "tests/cuda/cases.h"

namespace trainer {

void add_soft_cross_entropy_cases(std::vector<KernelCase>& cases) {
  for (const Shape& shape :
       {Shape{1, 1}, Shape{33, 10}, Shape{3, 7, 31}, Shape{2, 1100}, Shape{2, 3, 5, 7}}) {
    for (const double temperature : {1.0, 4.0}) {
      cases.push_back(
          {fmt::format("soft_cross_entropy {} at {}", to_string(shape), temperature),
           [=](Sketch& sketch) {
             const TensorId x = sketch.parameter("x", shape), teacher = sketch.input("teacher", shape),
                            weights = sketch.input("weights", {shape[0]}, Values::positive);
             if (shape[0] > 1) sketch.values["weights"][1] = 0;
             sketch.output("loss", sketch.build().emit<SoftCrossEntropy>({x, teacher, weights}, temperature));
           },
           false});
    }
  }
}

}  // namespace trainer
