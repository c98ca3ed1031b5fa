# SPDX-License-Identifier: Apache-2.0
trainer_library(core/engine
  SOURCES
    agreement.cpp arena.cpp backend.cpp backend_library.cpp buffer.cpp device_description.cpp executable.cpp initialize.cpp
    input_feed.cpp layout.cpp outputs.cpp plan.cpp plan_layouts.cpp plan_storage.cpp state_image.cpp step_layouts.cpp
  USES graph base
  PRIVATE fmt::fmt nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
