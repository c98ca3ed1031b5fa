# SPDX-License-Identifier: Apache-2.0
trainer_library(core/passes
  USES engine graph base)
