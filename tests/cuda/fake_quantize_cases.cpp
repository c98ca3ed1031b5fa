// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/fake_quantize.h"

#include <fmt/format.h>

#include "tests/cuda/cases.h"

namespace trainer {
namespace {

/// Rounds numbers within the range, and a few beyond it.
KernelCase activations_case(const Shape& shape, bool moves, bool has_signs, bool power_of_two) {
  return {
      fmt::format("fake_quantize {} moves {} signs {} power_of_two {}", to_string(shape), moves, has_signs,
                  power_of_two),
      [=](Sketch& sketch) {
        const TensorId x = sketch.input("x", shape, has_signs ? Values::normal : Values::positive),
                       range = sketch.input("range", {2}), step = sketch.integers("step", 1, 1);
        sketch.values["range"] = {has_signs ? -1.0F : 0.0F, 0.75F};
        const auto made = sketch.build().emit_all(
            std::make_shared<FakeQuantize>(ActivationLevels{.bits = 6, .power_of_two = power_of_two}, moves),
            {x, range, step});
        sketch.output("y", made[FakeQuantize::kY]);
        if (moves) sketch.output("fresh", made[FakeQuantize::kFresh]);
        sketch.loss(sketch.parameter("p", {3}));
      },
      false};
}

KernelCase weights_case(const Shape& shape, const WeightLevels& levels, int64_t begin) {
  return {fmt::format("fake_quantize_weights {} per_tensor {} power_of_two {} begin {}", to_string(shape),
                      levels.per_tensor, levels.power_of_two, begin),
          [=](Sketch& sketch) {
            const TensorId w = sketch.input("w", shape), step = sketch.integers("step", 1, 1);
            sketch.output(
                "y", sketch.build().emit<FakeQuantizeWeights>({w, step}, levels, FakeQuantizeBegin{begin}));
            sketch.loss(sketch.parameter("p", {3}));
          },
          false};
}

}  // namespace

void add_fake_quantize_cases(std::vector<KernelCase>& cases) {
  for (const Shape& shape : {Shape{1}, Shape{3, 31}, Shape{2, 3, 5, 7}, Shape{9001}}) {
    for (const bool moves : {false, true}) {
      for (const bool has_signs : {false, true})
        cases.push_back(activations_case(shape, moves, has_signs, moves == has_signs));
    }
    for (const bool per_tensor : {false, true}) {
      cases.push_back(
          weights_case(shape, {.bits = 5, .per_tensor = per_tensor, .power_of_two = !per_tensor}, 0));
      cases.push_back(weights_case(shape, {.bits = 5, .per_tensor = per_tensor}, 1));
    }
  }
}

}  // namespace trainer
