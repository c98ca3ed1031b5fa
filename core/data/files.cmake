# SPDX-License-Identifier: Apache-2.0
# A format's or a transform's file is found by itself.
file(GLOB_RECURSE data_sources RELATIVE ${CMAKE_SOURCE_DIR}/core/data CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/core/data/*.cpp)
trainer_library(core/data
  SOURCES ${data_sources}
  USES base config engine
  PRIVATE JPEG::JPEG PNG::PNG ZLIB::ZLIB Threads::Threads fmt::fmt)
# Their loops are vectorised with shuffles, which -O2 leaves out.
set_source_files_properties(
  ${CMAKE_SOURCE_DIR}/core/data/images/resample.cpp ${CMAKE_SOURCE_DIR}/core/data/images/transforms/gaussian.cpp
  ${CMAKE_SOURCE_DIR}/core/data/images/transforms/median.cpp
  PROPERTIES COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON)
