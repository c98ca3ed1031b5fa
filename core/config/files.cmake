# SPDX-License-Identifier: Apache-2.0
trainer_library(core/config
  USES base
  PRIVATE yaml-cpp fmt::fmt)
