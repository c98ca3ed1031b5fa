# SPDX-License-Identifier: Apache-2.0
trainer_library(core/sweep
  USES recipe run search metrics host storage config base
  PRIVATE fmt::fmt)
