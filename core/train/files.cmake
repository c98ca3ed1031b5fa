# SPDX-License-Identifier: Apache-2.0
trainer_library(core/train
  SOURCES
    batch_feed.cpp device_samples.cpp device_watch.cpp evaluation.cpp loop.cpp loop_settings.cpp loop_state.cpp non_finite.cpp prediction.cpp recorder.cpp
    step_runner.cpp trace.cpp unreadable_list.cpp
  USES tasks optim metrics host data engine storage graph config base
  PRIVATE nlohmann_json::nlohmann_json fmt::fmt)
