# SPDX-License-Identifier: Apache-2.0
trainer_library(core/graph
  SOURCES
    attribute.cpp builder.cpp operation.cpp program.cpp verify.cpp
    ops/assign.cpp ops/batch_norm.cpp ops/binary.cpp ops/blend.cpp ops/cast.cpp ops/channels.cpp ops/concat.cpp ops/conv2d.cpp
    ops/cross_entropy.cpp ops/dropout.cpp ops/keep.cpp ops/linear.cpp ops/loss_scale.cpp ops/optimizer_steps.cpp ops/pool2d.cpp ops/resample2d.cpp
    ops/read_samples.cpp ops/reshape.cpp ops/scale_pixels.cpp ops/step_guard.cpp ops/stochastic_depth.cpp ops/unary.cpp
  USES base
  PRIVATE fmt::fmt)
