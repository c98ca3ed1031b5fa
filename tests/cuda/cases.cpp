// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/cases.h"

#include <fmt/format.h>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/blend.h"
#include "core/graph/ops/unary.h"
#include "tests/ops/functions.h"

namespace trainer {
namespace {

using Cases = std::vector<KernelCase>;

const std::vector<Shape> kMatrices = {{1, 2}, {1, 31}, {3, 11}, {2, 32}, {7, 37}, {3, 1031}};

void add_elementwise(Cases& cases) {
  for_each_functor([&](auto functor) {
    const elementwise::Function f = functor;
    for (const Shape& shape : kMatrices) {
      cases.push_back({fmt::format("{} {}", function_name(f), to_string(shape)), [=](Sketch& sketch) {
                         const TensorId x = sketch.parameter("x", shape, Values::off_zero);
                         const TensorId y = sketch.build().emit<Unary>({x}, f);
                         sketch.output("y", y);
                         sketch.loss(y);
                       }});
    }
  });
  for (const auto kind : {Binary::Kind::add, Binary::Kind::mul}) {
    for (const Shape& shape : kMatrices) {
      cases.push_back(
          {fmt::format("binary {} {}", static_cast<int>(kind), to_string(shape)), [=](Sketch& sketch) {
             const TensorId a = sketch.parameter("a", shape), b = sketch.parameter("b", shape);
             const TensorId y = sketch.build().emit<Binary>({a, b}, kind);
             sketch.output("y", y);
             sketch.loss(y);
           }});
    }
  }
  for (const Shape& shape : kMatrices) {
    cases.push_back({fmt::format("blend {}", to_string(shape)), [=](Sketch& sketch) {
                       const TensorId old = sketch.input("old", shape), fresh = sketch.input("fresh", shape);
                       sketch.output("y", sketch.build().emit<Blend>({old, fresh}, 0.1, 37.0 / 36));
                       sketch.loss(sketch.parameter("p", {3, 2}));
                     }});
  }
}

}  // namespace

std::vector<KernelCase> kernel_cases() {
  Cases cases;
  add_elementwise(cases);
  return cases;
}

Tolerances narrow_tolerances(DType dtype) {
  const double step = dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  return {.forward = 3 * step, .gradients = 6 * step};
}

}  // namespace trainer
