# SPDX-License-Identifier: Apache-2.0
# `cpack -G DEB` in a build's folder: a package for the Debian release that it is built on.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "the authors of trainer")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains neural networks from a YAML recipe")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Loaded by trackers alone, so that no tool finds it.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libcurl4 | libcurl4t64, ca-certificates")
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/package_staged.cmake)
if(TARGET trainer_cuda)
  # NVIDIA's libraries are not Debian packages: they are found here and add no dependency.
  foreach(library ${CUDNN_LIBRARY} ${CUDA_cublasLt_LIBRARY})
    get_filename_component(folder ${library} DIRECTORY)
    list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${folder})
  endforeach()
endif()
include(CPack)
