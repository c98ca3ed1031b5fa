# SPDX-License-Identifier: Apache-2.0
trainer_library(core/session
  USES recipe run train optim metrics host storage data engine graph config base
  PRIVATE fmt::fmt)
