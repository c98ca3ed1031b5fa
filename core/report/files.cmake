# SPDX-License-Identifier: Apache-2.0
trainer_library(core/report
  USES run sweep search
  PRIVATE fmt::fmt)
