// SPDX-License-Identifier: Apache-2.0
#include "core/engine/backend_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

struct CloseLibrary {
  void operator()(void* library) const { ::dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

/// `text` says what is wrong and how to mend it; the other way out is always the same.
[[noreturn]] void refuse_device(const std::string& name, const std::string& text) {
  throw Error(ExitCode::no_device, fmt::format("device.type={}: {}, or write device.type=cpu", name, text));
}

fs::path find_library(const std::string& name, const fs::path& directory) {
  const std::string file = "libtrainer_" + name + ".so";
  for (const fs::path& place : {directory, directory / ".." / "lib"}) {
    std::error_code unreadable;
    if (fs::exists(place / file, unreadable)) return place / file;
  }
  refuse_device(
      name,
      fmt::format("{} is neither in {} nor in {}: it was not built, or not installed with the program; build "
                  "it where nvcc and cuDNN 9 are installed (scripts/build.sh)",
                  file, directory.string(), (directory.parent_path() / "lib").string()));
}

/// What the loader says, "libx.so.1: cannot open shared object file: No such file…", with what to do about
/// it.
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

/// It stays loaded when the handle is closed, since kernels and buffers run its code as long as they live.
Library open_library(const std::string& name, const fs::path& path) {
  Library library(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE));
  if (library == nullptr) {
    refuse_device(name, why_not_opened(path, ::dlerror()));
  }
  return library;
}

/// A function that the library must export.
template <class Function>
Function* exported(const std::string& name, const fs::path& path, const Library& library,
                   const char* symbol) {
  auto* function = reinterpret_cast<Function*>(::dlsym(library.get(), symbol));
  if (function == nullptr) {
    refuse_device(
        name, fmt::format("{} is no backend library: it has no {}; install the one built with this program",
                          path.string(), symbol));
  }
  return function;
}

}  // namespace

Backend load_backend(const std::string& name, const fs::path& directory, const BackendRequest& request) {
  if (name != "cuda") {
    throw Error(ExitCode::no_device,
                fmt::format("no library holds a backend \"{}\": there is \"cuda\"", name));
  }
  const fs::path path = find_library(name, directory);
  const Library library = open_library(name, path);
  auto* factory = exported<BackendFactory>(name, path, library, kBackendFactory);
  std::array<char, 1024> reason{};
  Backend backend;
  const ExitCode code = factory(kBackendInterface, request, backend, reason.data(), reason.size());
  if (code == ExitCode::no_device) refuse_device(name, reason.data());
  if (code != ExitCode::done) throw Error(code, fmt::format("device.type={}: {}", name, reason.data()));
  return backend;
}

Backend load_backend(const std::string& name, const BackendRequest& request) {
  return load_backend(name, program_directory(), request);
}

std::string inspect_backend(const std::string& name) {
  const fs::path path = find_library(name, program_directory());
  const Library library = open_library(name, path);
  std::vector<char> json(size_t{1} << 16);
  exported<BackendInspector>(name, path, library, kBackendInspector)(json.data(), json.size());
  return json.data();
}

}  // namespace trainer
