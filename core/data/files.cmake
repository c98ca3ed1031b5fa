# SPDX-License-Identifier: Apache-2.0
trainer_library(core/data
  USES base config engine storage text
  PRIVATE JPEG::JPEG PNG::PNG PkgConfig::WEBP protozero::protozero ZLIB::ZLIB Threads::Threads fmt::fmt)
# Each decoder with an optional library is told if that was found.
function(decode_with target name found)
  if(found)
    target_link_libraries(trainer_data PRIVATE ${target})
    string(TOUPPER TRAINER_${name} definition)
    set_property(SOURCE ${CMAKE_SOURCE_DIR}/core/data/images/decode_${name}.cpp APPEND PROPERTY COMPILE_DEFINITIONS ${definition})
  endif()
endfunction()
decode_with(GIF::GIF gif "${GIF_FOUND}")
decode_with(PkgConfig::TIFF tiff "${TIFF_FOUND}")
decode_with(PkgConfig::AVIF avif "${AVIF_FOUND}")
decode_with(PkgConfig::OPENJPEG jpeg2000 "${OPENJPEG_FOUND}")
# Their loops are vectorised with shuffles, which -O2 leaves out.
set_source_files_properties(
  ${CMAKE_SOURCE_DIR}/core/data/images/resample.cpp ${CMAKE_SOURCE_DIR}/core/data/images/transforms/gaussian.cpp
  ${CMAKE_SOURCE_DIR}/core/data/images/transforms/median.cpp
  PROPERTIES COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON)
