# SPDX-License-Identifier: Apache-2.0
trainer_library(core/passes
  SOURCES accumulate.cpp autodiff.cpp dead_code.cpp fuse_relu.cpp pass.cpp
  USES graph base)
