# SPDX-License-Identifier: Apache-2.0
trainer_library(core/optim
  USES graph config base
  PRIVATE fmt::fmt)
