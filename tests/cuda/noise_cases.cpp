// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "core/graph/ops/channels.h"
#include "core/graph/ops/noise.h"
#include "tests/cuda/cases.h"

namespace trainer {

void add_noise_cases(std::vector<KernelCase>& cases) {
  const noise::Rule gaussian = noise::Gaussian{.std = 25, .clips = false},
                    clipped = noise::Gaussian{.std = 90}, salt = noise::SaltAndPepper{.share = 0.4};
  for (const Shape& shape : {Shape{2, 1, 1, 2}, Shape{5, 1, 31, 1}, Shape{3, 3, 7, 5}, Shape{2, 1, 33, 31}}) {
    for (const noise::Rule& rule : {gaussian, clipped, salt}) {
      for (const bool steps : {false, true}) {
        const std::string name = Noise(rule, 0).name().data();
        cases.push_back(differentiable(
            fmt::format("{} {}{}", name, to_string(shape), steps ? " of steps" : ""), [=](Sketch& sketch) {
              const TensorId x = sketch.input("x", shape),
                             samples = sketch.integers("samples", shape[0], 1000),
                             step = steps ? sketch.integers("step", 1, 50) : kNone,
                             scale = sketch.input("scale", {shape[1]}),
                             offset = sketch.input("offset", {shape[1]});
              for (float& value : sketch.values["scale"]) value = std::abs(value) / 100;
              Builder& build = sketch.build();
              const TensorId y = build.emit<Noise>({x, samples, step, scale, offset}, rule, uint64_t{9});
              return build.emit<ScaleChannels>({y, sketch.parameter("s", {shape[0], shape[1], 1, 1})});
            }));
        cases.back().narrow = false;  // it takes f32
      }
    }
  }
}

}  // namespace trainer
