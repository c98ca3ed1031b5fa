# SPDX-License-Identifier: Apache-2.0
trainer_library(core/data
  USES base config engine text
  PRIVATE JPEG::JPEG PNG::PNG PkgConfig::WEBP ZLIB::ZLIB Threads::Threads fmt::fmt)
if(GIF_FOUND)
  target_link_libraries(trainer_data PRIVATE GIF::GIF)
  set_property(SOURCE ${CMAKE_SOURCE_DIR}/core/data/images/decode_gif.cpp APPEND PROPERTY COMPILE_DEFINITIONS TRAINER_GIF)
endif()
# Their loops are vectorised with shuffles, which -O2 leaves out.
set_source_files_properties(
  ${CMAKE_SOURCE_DIR}/core/data/images/resample.cpp ${CMAKE_SOURCE_DIR}/core/data/images/transforms/gaussian.cpp
  ${CMAKE_SOURCE_DIR}/core/data/images/transforms/median.cpp
  PROPERTIES COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON)
