# SPDX-License-Identifier: Apache-2.0
# An optimiser's file is found by itself: adding one touches the file and its row in optimizer.cpp, nothing else.
file(GLOB optim_sources RELATIVE ${CMAKE_SOURCE_DIR}/core/optim CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/optim/*.cpp)
trainer_library(core/optim
  SOURCES ${optim_sources}
  USES graph config base
  PRIVATE fmt::fmt)
