# SPDX-License-Identifier: Apache-2.0
trainer_library(core/train
  SOURCES
    batch_feed.cpp device_watch.cpp evaluation.cpp log.cpp loop.cpp metrics.cpp progress.cpp run_directory.cpp
    run_identity.cpp schedule.cpp step_runner.cpp trace.cpp tuning_file.cpp unreadable_list.cpp weights.cpp
  USES base config data engine graph storage
  PRIVATE nlohmann_json::nlohmann_json fmt::fmt Threads::Threads)
