# SPDX-License-Identifier: Apache-2.0
trainer_library(core/run
  USES train tasks metrics host storage quantization engine graph config base
  PRIVATE Threads::Threads fmt::fmt)
