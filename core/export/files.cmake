# SPDX-License-Identifier: Apache-2.0
trainer_library(core/export
  USES storage graph base
  PRIVATE protozero::protozero fmt::fmt)
