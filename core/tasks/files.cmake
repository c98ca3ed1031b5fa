# SPDX-License-Identifier: Apache-2.0
# A task's file is found by itself: adding one touches the file and its line in table.h.
file(GLOB task_sources RELATIVE ${CMAKE_SOURCE_DIR}/core/tasks CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/core/tasks/*.cpp)
trainer_library(core/tasks
  SOURCES ${task_sources}
  USES layers config graph base
  PRIVATE fmt::fmt)
