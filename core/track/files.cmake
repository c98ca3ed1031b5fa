# SPDX-License-Identifier: Apache-2.0
trainer_library(core/track
  USES metrics host storage base
  PRIVATE PkgConfig::CURL Threads::Threads fmt::fmt)
