// SPDX-License-Identifier: Apache-2.0
#include "core/engine/own_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// A refusal that does not return.
[[noreturn]] void refuse(const OwnLibrary::Names& names, const std::string& text) {
  names.refuse(text);
  throw std::logic_error("a refusal that throws nothing: " + text);
}

fs::path find_library(const OwnLibrary::Names& names, const fs::path& directory) {
  const std::string file = "libtrainer_" + names.name + ".so";
  for (const fs::path& place : {directory, directory / ".." / "lib"}) {
    std::error_code unreadable;
    if (fs::exists(place / file, unreadable)) return place / file;
  }
  refuse(names,
         fmt::format("{} is neither in {} nor in {}: it was not built, or not installed with the "
                     "program; {}",
                     file, directory.string(), (directory.parent_path() / "lib").string(), names.to_build));
}

/// The loader's message, "libx.so.1: cannot open shared object file: No such file…", with a remedy.
std::string why_not_opened(const fs::path& path, const std::string& words) {
  const size_t end = words.find(": cannot open shared object file");
  if (end == std::string::npos || words.starts_with(path.string())) {
    return fmt::format("cannot open {}: {}; put the folder of a missing library into LD_LIBRARY_PATH",
                       path.string(), words);
  }
  const std::string library = words.substr(0, end);
  return fmt::format(
      "{} needs {}{}, which the loader cannot find; install it, put its folder into LD_LIBRARY_PATH",
      path.filename().string(), library.starts_with("libcudnn") ? "cuDNN 9: " : "", library);
}

}  // namespace

void OwnLibrary::Close::operator()(void* library) const {
  ::dlclose(library);
}

OwnLibrary::OwnLibrary(Names names, const fs::path& directory)
    : names_(std::move(names)),
      path_(find_library(names_, directory)),
      library_(::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
  if (library_ == nullptr) refuse(names_, why_not_opened(path_, ::dlerror()));
}

void* OwnLibrary::find(const char* symbol) const {
  void* found = ::dlsym(library_.get(), symbol);
  if (found == nullptr) {
    refuse(names_,
           fmt::format("{} is not a library of this program: it has no {}; install the one built with it",
                       path_.string(), symbol));
  }
  return found;
}

}  // namespace trainer
