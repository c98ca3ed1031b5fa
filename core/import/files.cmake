# SPDX-License-Identifier: Apache-2.0
trainer_library(core/import
  USES storage text config base
  PRIVATE PkgConfig::LIBZIP protozero::protozero fmt::fmt)
