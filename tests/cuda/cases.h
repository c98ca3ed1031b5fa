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

/// A case with a draft that returns a tensor for the comparison and for the loss.
KernelCase differentiable(const std::string& name, const std::function<TensorId(Sketch&)>& draft);

/// The table of cases, which tests run on a GPU and in the emulation: one line for each family, a function in
/// its own file.
// clang-format off
#define TRAINER_KERNEL_CASES(row) \
  row(add_append_to_cache_cases) \
  row(add_apply_mask_cases) \
  row(add_soft_cross_entropy_cases) \
  row(add_element_loss_cases) \
  row(add_fake_quantize_cases) \
  row(add_elementwise_cases) \
  row(add_for_each_cases) \
  row(add_attention_cases) \
  row(add_loss_cases) \
  row(add_batch_norm_cases) \
  row(add_gram_batch_norm_cases) \
  row(add_image_cases) \
  row(add_movement_cases) \
  row(add_noise_cases) \
  row(add_norm_cases) \
  row(add_psnr_cases) \
  row(add_random_cases) \
  row(add_sequence_cases) \
  row(add_optimizer_cases) \
  row(add_guard_cases)
// clang-format on

#define TRAINER_DECLARE_ROW(function) void function(std::vector<KernelCase>& cases);
TRAINER_KERNEL_CASES(TRAINER_DECLARE_ROW)
#undef TRAINER_DECLARE_ROW

struct CaseFamily {
  std::string name;
  void (*add)(std::vector<KernelCase>& cases);
};
const std::vector<CaseFamily>& case_families();

/// The tolerance of a comparison in f16 (or bf16): some roundings to 11 (8) bits.
Tolerances narrow_tolerances(DType dtype);

}  // namespace trainer
