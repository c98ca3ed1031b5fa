// SPDX-License-Identifier: Apache-2.0
#include "core/engine/backend_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "core/base/error.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

struct CloseLibrary {
  void operator()(void* library) const { ::dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

/// `text` says what is wrong and how to mend it; the other way out is always the same.
[[noreturn]] void refuse(const std::string& name, const std::string& text) {
  throw Error(ExitCode::no_device, fmt::format("device.type={}: {}, or write device.type=cpu", name, text));
}

fs::path find_library(const std::string& name, const fs::path& directory) {
  const std::string file = "libtrainer_" + name + ".so";
  for (const fs::path& place : {directory, directory / ".." / "lib"}) {
    std::error_code unreadable;
    if (fs::exists(place / file, unreadable)) return place / file;
  }
  refuse(name,
         fmt::format("{} is not in {}: this trainer was built without CUDA; rebuild where nvcc is installed, "
                     "with -DTRAINER_CUDA=on",
                     file, directory.string()));
}

/// It stays loaded when the handle is closed, since kernels and buffers run its code as long as they live.
Library open_library(const std::string& name, const fs::path& path) {
  Library library(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE));
  if (library == nullptr) {
    refuse(name, fmt::format("cannot open {}: {}; put the folder of a missing library into LD_LIBRARY_PATH",
                             path.string(), ::dlerror()));
  }
  return library;
}

}  // namespace

std::unique_ptr<Backend> load_backend(const std::string& name, const fs::path& directory) {
  if (name != "cuda") {
    throw Error(ExitCode::no_device,
                fmt::format("no library holds a backend \"{}\": there is \"cuda\"", name));
  }
  const fs::path path = find_library(name, directory);
  const Library library = open_library(name, path);
  auto* factory = reinterpret_cast<BackendFactory*>(::dlsym(library.get(), kBackendFactory));
  if (factory == nullptr) {
    refuse(name,
           fmt::format("{} is no backend library: it has no {}; install the one built with this program",
                       path.string(), kBackendFactory));
  }
  std::array<char, 1024> reason{};
  std::unique_ptr<Backend> backend(factory(kBackendInterface, reason.data(), reason.size()));
  if (backend == nullptr) refuse(name, reason.data());
  return backend;
}

std::unique_ptr<Backend> load_backend(const std::string& name) {
  std::error_code unreadable;
  const fs::path program = fs::read_symlink("/proc/self/exe", unreadable);
  return load_backend(name, program.parent_path());
}

}  // namespace trainer
