# SPDX-License-Identifier: Apache-2.0
trainer_library(core/run
  SOURCES
    checkpoint_files.cpp checkpoints.cpp resume.cpp run_directory.cpp run_identity.cpp run_list.cpp run_state.cpp
    status.cpp trained_files.cpp tuning_file.cpp weights.cpp
  USES train tasks metrics host storage engine graph config base
  PRIVATE nlohmann_json::nlohmann_json Threads::Threads fmt::fmt)
