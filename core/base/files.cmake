# SPDX-License-Identifier: Apache-2.0
trainer_library(core/base
  PRIVATE fmt::fmt nlohmann_json::nlohmann_json
  HEADERS ${stable_headers})
