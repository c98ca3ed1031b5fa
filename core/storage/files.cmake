# SPDX-License-Identifier: Apache-2.0
trainer_library(core/storage
  USES base
  PRIVATE fmt::fmt)
