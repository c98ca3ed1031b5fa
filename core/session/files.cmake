# SPDX-License-Identifier: Apache-2.0
trainer_library(core/session
  USES pruning report track recipe run train step optim metrics host ranks storage data engine graph config base
  PRIVATE fmt::fmt)
