# SPDX-License-Identifier: Apache-2.0
trainer_library(core/graph
  USES base
  PRIVATE fmt::fmt)
