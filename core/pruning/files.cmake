# SPDX-License-Identifier: Apache-2.0
trainer_library(core/pruning
  USES graph base
  PRIVATE fmt::fmt)
