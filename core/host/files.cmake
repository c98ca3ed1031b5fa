# SPDX-License-Identifier: Apache-2.0
trainer_library(core/host
  SOURCES child_process.cpp log.cpp process.cpp progress.cpp slurm.cpp stop.cpp time_limit.cpp
  USES base
  PRIVATE Threads::Threads fmt::fmt)
