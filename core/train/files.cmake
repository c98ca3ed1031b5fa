# SPDX-License-Identifier: Apache-2.0
trainer_library(core/train
  SOURCES
    batch_feed.cpp checkpoint_files.cpp checkpoints.cpp child_process.cpp csv_file.cpp device_samples.cpp device_watch.cpp
    evaluation.cpp event_file.cpp guard.cpp log.cpp loop.cpp metrics.cpp metrics_sinks.cpp non_finite.cpp
    prediction.cpp process.cpp progress.cpp recorder.cpp resume.cpp run_directory.cpp run_identity.cpp
    run_list.cpp run_state.cpp schedule.cpp slurm.cpp status.cpp step_runner.cpp stop.cpp time_limit.cpp
    trace.cpp trained_files.cpp tuning_file.cpp unreadable_list.cpp weights.cpp
  USES base config data engine graph storage
  PRIVATE nlohmann_json::nlohmann_json fmt::fmt Threads::Threads)
