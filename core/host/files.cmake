# SPDX-License-Identifier: Apache-2.0
trainer_library(core/host
  USES base
  PRIVATE Threads::Threads fmt::fmt)
