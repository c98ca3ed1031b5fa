// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/two_backends.h"

#include <cmath>
#include <cstdio>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/engine/backend_library.h"
#include "core/engine/executable.h"

namespace trainer {

std::vector<float> run_on(const Backend& backend, const OneOperation& operation, uint64_t seed, float scale) {
  Program program;
  program.entries.emplace_back("run");
  Builder build(program, program.entries[0]);
  std::vector<TensorId> inputs;
  for (const Shape& shape : operation.inputs) {
    const TensorSpec spec{.shape = shape, .dtype = DType::f32};
    inputs.push_back(
        program.persistent("input" + std::to_string(inputs.size()), spec, Role::parameter, Initial{}));
  }
  const TensorId output = operation.emit(build, inputs);
  program.entries[0].outputs.push_back({"output", output});

  Executable executable(make_plan(program, *backend.planner), *backend.device);
  for (const TensorId input : inputs) {
    RandomStream random(random_key(seed, program.tensor(input).name));
    std::vector<float> values(static_cast<size_t>(numel(program.spec(input).shape)));
    for (float& value : values) value = scale * (2.0f * random.next_uniform() - 1.0f);
    executable.write(input, values);
  }
  executable.run(executable.entry("run"));
  return executable.read(output);
}

std::optional<Backend> cuda_or_skip() {
  try {
    return load_backend("cuda");
  } catch (const Error& error) {
    REQUIRE(error.code() == ExitCode::no_device);
    std::printf("skipped: %s: %s\n", Catch::getResultCapture().getCurrentTestName().c_str(), error.what());
    return std::nullopt;
  }
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

}  // namespace trainer
