# SPDX-License-Identifier: Apache-2.0
trainer_library(core/recipe
  USES run track search pruning train tasks step optim metrics host storage data text layers passes engine graph config base
  PRIVATE fmt::fmt)
