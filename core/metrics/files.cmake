# SPDX-License-Identifier: Apache-2.0
trainer_library(core/metrics
  USES host storage base
  PRIVATE protozero::protozero fmt::fmt)
