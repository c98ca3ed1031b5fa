# SPDX-License-Identifier: Apache-2.0
trainer_library(core/tune
  USES session recipe run train optim metrics host ranks storage data engine graph config base
  PRIVATE fmt::fmt)
