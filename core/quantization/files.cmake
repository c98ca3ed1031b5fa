# SPDX-License-Identifier: Apache-2.0
trainer_library(core/quantization
  USES base
  PRIVATE fmt::fmt)
