// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/ops/harness.h"

namespace trainer {

/// A program for our own kernels, of sizes around a warp, a block and eight elements.
struct KernelCase {
  std::string name;
  Draft draft;
  bool narrow = true;  ///< also with f16 and bf16
  Tolerances tolerances = {};
};

/// A case whose draft gives a tensor that is compared, and that a loss depends on.
KernelCase differentiable(const std::string& name, const std::function<TensorId(Sketch&)>& draft);

/// Cases that a test runs together.
struct CaseFamily {
  std::string name;
  void (*add)(std::vector<KernelCase>& cases);
};
const std::vector<CaseFamily>& case_families();

void add_batch_norm_cases(std::vector<KernelCase>& cases);
void add_elementwise_cases(std::vector<KernelCase>& cases);
void add_guard_cases(std::vector<KernelCase>& cases);
void add_image_cases(std::vector<KernelCase>& cases);
void add_loss_cases(std::vector<KernelCase>& cases);
void add_movement_cases(std::vector<KernelCase>& cases);
void add_optimizer_cases(std::vector<KernelCase>& cases);
void add_random_cases(std::vector<KernelCase>& cases);

/// What f16 (or bf16) leaves of a comparison: some roundings to 11 (8) bits.
Tolerances narrow_tolerances(DType dtype);

}  // namespace trainer
