# SPDX-License-Identifier: Apache-2.0
trainer_library(core/engine
  USES graph base
  PRIVATE fmt::fmt nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
