# SPDX-License-Identifier: Apache-2.0
trainer_library(core/base
  PRIVATE fmt::fmt
  HEADERS ${stable_headers})
