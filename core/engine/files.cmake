# SPDX-License-Identifier: Apache-2.0
trainer_library(core/engine
  USES graph base
  PRIVATE fmt::fmt ${CMAKE_DL_LIBS})
