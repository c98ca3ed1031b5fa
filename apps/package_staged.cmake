# SPDX-License-Identifier: Apache-2.0
# Read by cpack between installing into a folder and packing that.
find_program(shlibdeps dpkg-shlibdeps)
if(CPACK_GENERATOR STREQUAL DEB AND NOT shlibdeps)
  # Without this, cpack would only warn and make a package without dependencies.
  message(FATAL_ERROR "dpkg-shlibdeps was not found, which tells what the package depends on: run scripts/setup.sh --package")
endif()
# Installed files are readable by everyone, whatever the umask.
file(CHMOD_RECURSE "${CPACK_TEMPORARY_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX}" DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
