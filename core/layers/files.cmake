# SPDX-License-Identifier: Apache-2.0
trainer_library(core/layers
  SOURCES
    adamw.cpp conv2d.cpp dropout.cpp elementwise.cpp initializer.cpp layer.cpp linear.cpp loss.cpp merge.cpp
    network.cpp optimizer.cpp pool2d.cpp reshape.cpp sgd.cpp table.cpp
  USES config graph base
  PRIVATE fmt::fmt)
