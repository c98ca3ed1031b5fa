# SPDX-License-Identifier: Apache-2.0
trainer_library(core/passes
  SOURCES
    accumulate.cpp autodiff.cpp average_weights.cpp copy_entry.cpp dead_code.cpp dependence.cpp
    fold_batch_norm.cpp fuse_gradient_sum.cpp fuse_relu.cpp fuse_residual.cpp guards.cpp keep_low_weights.cpp liveness.cpp
    mixed_precision.cpp pass.cpp read_pixels.cpp read_samples.cpp recompute.cpp uses.cpp
  USES graph base)
