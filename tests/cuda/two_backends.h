// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/backend.h"
#include "core/graph/builder.h"

namespace trainer {

/// One operation on persistent tensors of these shapes; `emit` appends it and returns its output.
struct OneOperation {
  std::vector<Shape> inputs;
  std::function<TensorId(Builder&, const std::vector<TensorId>&)> emit;
};

/// The output's elements in row-major order, on inputs uniform in [-scale, scale) drawn from `seed`.
std::vector<float> run_on(const Backend& backend, const OneOperation& operation, uint64_t seed, float scale);

/// The GPU's backend, or nothing after a line that says why the test is skipped.
std::optional<Backend> cuda_or_skip();

/// |a - b| / |b|, both as Euclidean norms.
double distance(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace trainer
