# SPDX-License-Identifier: Apache-2.0
trainer_library(core/data
  SOURCES
    batch.cpp byte_stream.cpp cifar.cpp data_error.cpp decode.cpp decode_jpeg.cpp decode_png.cpp
    formats.cpp idx.cpp image_folder.cpp jpeg_entropy.cpp jpeg_scan.cpp mapped_file.cpp mix.cpp order.cpp
    orientation.cpp picture_file.cpp picture_files.cpp pipeline.cpp record.cpp record_writer.cpp resample.cpp section.cpp source.cpp
    statistics.cpp subset.cpp synthetic.cpp tolerant.cpp transform.cpp view.cpp
    transforms/augment_ops.cpp transforms/center_crop.cpp transforms/color_jitter.cpp transforms/colour.cpp
    transforms/cutout.cpp transforms/gaussian.cpp transforms/horizontal_flip.cpp transforms/median.cpp
    transforms/normalize.cpp transforms/random_augment.cpp transforms/random_crop.cpp
    transforms/random_resized_crop.cpp transforms/resize.cpp transforms/rotation.cpp transforms/table.cpp
    transforms/tones.cpp transforms/warp.cpp
  USES base config engine
  PRIVATE JPEG::JPEG PNG::PNG ZLIB::ZLIB Threads::Threads fmt::fmt)
# Their loops are vectorised with shuffles, which -O2 leaves out.
set_source_files_properties(
  ${CMAKE_SOURCE_DIR}/core/data/resample.cpp ${CMAKE_SOURCE_DIR}/core/data/transforms/gaussian.cpp
  ${CMAKE_SOURCE_DIR}/core/data/transforms/median.cpp
  PROPERTIES COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON)
