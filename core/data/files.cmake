# SPDX-License-Identifier: Apache-2.0
trainer_library(core/data
  SOURCES
    batch.cpp byte_stream.cpp formats.cpp idx.cpp order.cpp pipeline.cpp section.cpp synthetic.cpp
    transform.cpp
    transforms/horizontal_flip.cpp transforms/normalize.cpp transforms/random_crop.cpp transforms/table.cpp
  USES base config engine
  PRIVATE ZLIB::ZLIB Threads::Threads fmt::fmt)
