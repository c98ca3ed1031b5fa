# SPDX-License-Identifier: Apache-2.0
# A layer's file is found by itself: adding one touches the file and its line in table.h, nothing else.
file(GLOB layer_sources RELATIVE ${CMAKE_SOURCE_DIR}/core/layers CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/core/layers/*.cpp)
trainer_library(core/layers
  SOURCES ${layer_sources}
  USES config graph base
  PRIVATE fmt::fmt)
