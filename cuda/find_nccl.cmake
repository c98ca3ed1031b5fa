# SPDX-License-Identifier: Apache-2.0
# Sets NCCL_INCLUDE_DIR, NCCL_LIBRARY and NCCL_VERSION; the last is empty where there is no NCCL. Sought as cuDNN is
# (find_cudnn.cmake, which knows the places), in $NCCL_HOME first. Only for where it lies.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS $ENV{NCCL_HOME} ${places} PATHS ${packages}/nvidia/nccl PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES libnccl.so.2 nccl HINTS $ENV{NCCL_HOME} ${places} PATHS ${packages}/nvidia/nccl
             PATH_SUFFIXES lib lib64)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

set(NCCL_VERSION "")
if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h lines REGEX "#define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
  list(JOIN numbers "." NCCL_VERSION)
endif()
