# SPDX-License-Identifier: Apache-2.0
trainer_library(core/search
  USES base
  PRIVATE fmt::fmt)
