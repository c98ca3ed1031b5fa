# SPDX-License-Identifier: Apache-2.0
# What needs nothing of NVIDIA's beside the runtime: built into the library, and by g++ for the emulation.
set(own_kernels
  batch_norm.cu batch_norm_backward.cu batch_norm_inference.cu bias.cu channels.cu counters.cu dropout.cu
  elementwise.cu guards.cu loss.cu movement.cu norms.cu optimizer.cu pixels.cu pooling.cu resample.cu)
set(own_handlers
  batch_norm.cpp channels.cpp check.cpp conversion.cpp dropout.cpp elementwise.cpp guards.cpp handler.cpp loss.cpp loss_scale.cpp movement.cpp
  optimizer.cpp pixels.cpp pooling.cpp resample.cpp)
