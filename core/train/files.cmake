# SPDX-License-Identifier: Apache-2.0
trainer_library(core/train
  SOURCES atomic_file.cpp batch_feed.cpp device_watch.cpp evaluation.cpp file.cpp log.cpp loop.cpp metrics.cpp weights.cpp progress.cpp run_directory.cpp run_identity.cpp
          safetensors.cpp safetensors_header.cpp schedule.cpp step_runner.cpp trace.cpp tuning_file.cpp unreadable_list.cpp
  USES base config data engine graph
  PRIVATE nlohmann_json::nlohmann_json fmt::fmt Threads::Threads)
