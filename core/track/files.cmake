# SPDX-License-Identifier: Apache-2.0
trainer_library(core/track
  USES metrics host storage base
  PRIVATE ZLIB::ZLIB protozero::protozero Threads::Threads fmt::fmt)
# Its headers alone: it is loaded when a tracker needs it.
target_include_directories(trainer_track SYSTEM PRIVATE ${CURL_INCLUDE_DIRS})
target_link_libraries(trainer_track PRIVATE ${CMAKE_DL_LIBS})
