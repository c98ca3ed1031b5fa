# SPDX-License-Identifier: Apache-2.0
trainer_library(core/tasks
  USES layers config graph base
  PRIVATE fmt::fmt)
