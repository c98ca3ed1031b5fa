# SPDX-License-Identifier: Apache-2.0
# Part of the installation: what `program` prints about itself, the completions for shells and the manual page.
function(install_printed words file)
  set(path "${CMAKE_INSTALL_PREFIX}/share/${file}")
  set(CMAKE_INSTALL_MANIFEST_FILES ${CMAKE_INSTALL_MANIFEST_FILES} "${path}" PARENT_SCOPE)
  set(path "$ENV{DESTDIR}${path}")
  message(STATUS "Installing: ${path}")
  get_filename_component(folder "${path}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  execute_process(COMMAND "${program}" ${words} OUTPUT_FILE "${path}" COMMAND_ERROR_IS_FATAL ANY)
  file(CHMOD "${path}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endfunction()

install_printed("completion;bash" bash-completion/completions/trainer)
install_printed("completion;zsh" zsh/site-functions/_trainer)
install_printed("completion;fish" fish/vendor_completions.d/trainer.fish)
install_printed(man man/man1/trainer.1)
