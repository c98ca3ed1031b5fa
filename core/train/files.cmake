# SPDX-License-Identifier: Apache-2.0
trainer_library(core/train
  USES tasks step pruning quantization optim metrics host data engine storage graph config base
  PRIVATE fmt::fmt)
