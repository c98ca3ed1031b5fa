// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/noise.h"
#include "tests/catch.h"

#include "core/passes/pass.h"
#include "cpu/backend.h"
#include "tests/cuda_emulation/backend.h"
#include "tests/cuda_emulation/faults.h"
#include "tests/cuda_emulation/scheduler.h"
#include "tests/reference/session.h"

namespace trainer {
namespace {

Program noise_program(const noise::Rule& rule, const Shape& shape) {
  Program program;
  program.entries.emplace_back("draw");
  Builder build(program, program.entries[0]);
  const TensorSpec numbers{{shape[1]}, DType::f32};
  const std::vector<TensorId> in = {program.input("x", {shape, DType::f32}),
                                    program.input("sample", {{shape[0]}, DType::i32}),
                                    program.input("step", {{1}, DType::i32}), program.input("scale", numbers),
                                    program.input("offset", numbers)};
  program.entries[0].outputs.push_back({"y", build.emit<Noise>(in, rule, uint64_t{0xABCDEF0123456789u})});
  return program;
}

}  // namespace

TEST_CASE("CPU and GPU draw bitwise identical noise") {
  emulation::set_schedule(7);
  const Backend gpu = make_emulated_backend(), cpu = make_cpu_backend(2);
  for (const noise::Rule& rule :
       {noise::Rule(noise::Gaussian{.std = 25, .clips = false}), noise::Rule(noise::Gaussian{.std = 90}),
        noise::Rule(noise::SaltAndPepper{.share = 0.3})}) {
    for (const Shape& shape : {Shape{1, 1, 5, 3}, Shape{6, 3, 29, 31}}) {
      const Program program = noise_program(rule, shape);
      std::vector<std::vector<double>> drawn;
      for (const Backend* backend : {&gpu, &cpu}) {
        Session session(program, *backend);
        std::vector<float> x(static_cast<size_t>(numel(shape))), sample(static_cast<size_t>(shape[0]));
        RandomStream random(11);
        for (float& value : x) value = random.next_uniform();
        for (size_t n = 0; n < sample.size(); ++n) sample[n] = static_cast<float>(7 * n);
        const std::vector<float> scale(static_cast<size_t>(shape[1]), 0.017f), offset(scale.size(), -1.8f);
        session.set({{"x", x}, {"sample", sample}, {"step", {123}}, {"scale", scale}, {"offset", offset}});
        session.run("draw");
        drawn.push_back(session.output("draw", "y"));
      }
      CHECK(drawn[0] == drawn[1]);
    }
  }
  for (const emulation::Fault& fault : emulation::take_faults()) FAIL_CHECK(fault.kind << ": " << fault.text);
}

}  // namespace trainer
