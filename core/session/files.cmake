# SPDX-License-Identifier: Apache-2.0
trainer_library(core/session
  SOURCES device.cpp report.cpp session.cpp start.cpp
  USES recipe run train optim metrics host storage data engine graph config base
  PRIVATE fmt::fmt)
