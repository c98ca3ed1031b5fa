# SPDX-License-Identifier: Apache-2.0
trainer_library(core/train
  SOURCES
    batch_feed.cpp checkpoint_files.cpp checkpoints.cpp device_samples.cpp device_watch.cpp evaluation.cpp log.cpp loop.cpp
    metrics.cpp process.cpp progress.cpp recorder.cpp resume.cpp run_directory.cpp run_identity.cpp run_state.cpp schedule.cpp
    step_runner.cpp stop.cpp time_limit.cpp trace.cpp tuning_file.cpp unreadable_list.cpp weights.cpp
  USES base config data engine graph storage
  PRIVATE nlohmann_json::nlohmann_json fmt::fmt Threads::Threads)
