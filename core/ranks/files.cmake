# SPDX-License-Identifier: Apache-2.0
trainer_library(core/ranks
  USES host base
  PRIVATE PkgConfig::SODIUM fmt::fmt ${CMAKE_DL_LIBS})
