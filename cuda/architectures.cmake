# SPDX-License-Identifier: Apache-2.0
# Sets CMAKE_CUDA_ARCHITECTURES where it is not given: the GPU's own where one is, else those that a package has, for
# which `shipped` stands: each generation from the A100 on that nvcc knows, and PTX of the newest for what comes later.
# No kernel asks for more than a plain architecture has (90, not 90a).
execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
string(REGEX MATCHALL "[0-9]+" known "${known}")
set(shipped "")
foreach(architecture 80 90 100 120)
  if(architecture IN_LIST known)
    list(APPEND shipped ${architecture})
  endif()
endforeach()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES shipped)
  find_program(TRAINER_NVIDIA_SMI nvidia-smi)
  mark_as_advanced(TRAINER_NVIDIA_SMI)
  if(TRAINER_NVIDIA_SMI)
    execute_process(COMMAND ${TRAINER_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE capability ERROR_QUIET)
    string(REGEX MATCH "^[0-9]+\\.[0-9]+" capability "${capability}")
    string(REPLACE "." "" own "${capability}")
    if(own IN_LIST known)
      set(CMAKE_CUDA_ARCHITECTURES ${own}-real)
    endif()
  endif()
endif()
if(CMAKE_CUDA_ARCHITECTURES STREQUAL "shipped")
  list(POP_BACK shipped newest)
  list(TRANSFORM shipped APPEND -real)
  set(CMAKE_CUDA_ARCHITECTURES ${shipped} ${newest})
endif()
message(STATUS "CUDA architectures: ${CMAKE_CUDA_ARCHITECTURES}")
