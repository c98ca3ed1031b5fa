# SPDX-License-Identifier: Apache-2.0
trainer_library(core/layers
  USES config graph base
  PRIVATE fmt::fmt)
