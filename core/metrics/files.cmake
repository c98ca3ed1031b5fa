# SPDX-License-Identifier: Apache-2.0
trainer_library(core/metrics
  SOURCES csv_file.cpp event_file.cpp metrics.cpp metrics_sinks.cpp
  USES host storage base
  PRIVATE nlohmann_json::nlohmann_json fmt::fmt)
