# SPDX-License-Identifier: Apache-2.0
# Sets CUDNN_INCLUDE_DIR, CUDNN_LIBRARY and CUDNN_VERSION; the last is empty where there is no cuDNN 9. Sought in
# $CUDNN_HOME, the toolkit, the system's folders, and the `nvidia` wheels of the Python on PATH, in this order.
set(places $ENV{CUDNN_HOME})
foreach(folder ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_INCLUDE_DIRS})
  list(APPEND places ${folder}/..)
endforeach()
find_program(TRAINER_PYTHON NAMES python3 python)
if(TRAINER_PYTHON)
  execute_process(COMMAND ${TRAINER_PYTHON} -c "import sysconfig; print(sysconfig.get_paths()['purelib'])"
                  OUTPUT_VARIABLE packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${places} PATHS ${packages}/nvidia/cudnn PATH_SUFFIXES include)
find_library(CUDNN_LIBRARY NAMES libcudnn.so.9 cudnn HINTS ${places} PATHS ${packages}/nvidia/cudnn
             PATH_SUFFIXES lib lib64)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY TRAINER_PYTHON)

set(CUDNN_VERSION "")
if(CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h lines REGEX "#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
  string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
  list(JOIN numbers "." version)
  if(version VERSION_GREATER_EQUAL 9.8 AND version VERSION_LESS 10)  # 9.8 is the first that takes described devices
    set(CUDNN_VERSION ${version})
  endif()
endif()
