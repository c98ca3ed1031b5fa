# SPDX-License-Identifier: Apache-2.0
trainer_library(core/step
  USES tasks layers optim passes quantization engine graph config base
  PRIVATE fmt::fmt)
