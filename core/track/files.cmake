# SPDX-License-Identifier: Apache-2.0
trainer_library(core/track
  USES metrics host storage base
  PRIVATE PkgConfig::CURL ZLIB::ZLIB protozero::protozero Threads::Threads fmt::fmt)
