# SPDX-License-Identifier: Apache-2.0
trainer_library(core/base
  SOURCES checksum.cpp error.cpp file.cpp shape.cpp units.cpp
  PRIVATE fmt::fmt
  HEADERS ${stable_headers})
