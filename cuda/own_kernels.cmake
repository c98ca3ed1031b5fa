# SPDX-License-Identifier: Apache-2.0
# What needs nothing of NVIDIA's beside the runtime: built into the library, and by g++ for the emulation.
file(GLOB own_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cuda/*.cu)
file(GLOB own_handlers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cuda/*.cpp)
list(REMOVE_ITEM own_handlers ${CMAKE_SOURCE_DIR}/cuda/nccl.cpp)  # opens NCCL: only in the real library
set(library_handlers
  backend.cpp batched_matmul.cpp compiled_for.cpp convolution.cpp convolution_choice.cpp convolution_moments.cpp convolution_product.cpp described.cpp early_launch.cpp factory.cpp fused_attention.cpp inspect.cpp known_fastest.cpp linear.cpp
  linear_problem.cpp matmul.cpp
  monitor.cpp nccl_collectives.cpp ranges.cpp timeline.cpp trial.cpp)
list(TRANSFORM library_handlers PREPEND ${CMAKE_SOURCE_DIR}/cuda/)
list(REMOVE_ITEM own_handlers ${library_handlers})
