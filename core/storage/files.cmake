# SPDX-License-Identifier: Apache-2.0
trainer_library(core/storage
  SOURCES atomic_file.cpp checkpoint.cpp manifest.cpp safetensors.cpp safetensors_header.cpp
  USES base
  PRIVATE nlohmann_json::nlohmann_json fmt::fmt)
