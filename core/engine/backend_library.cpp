// SPDX-License-Identifier: Apache-2.0
#include "core/engine/backend_library.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/engine/own_library.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// `text` gives the error and its remedy; the alternative is always the same.
[[noreturn]] void refuse_device(const std::string& name, const std::string& text) {
  throw Error(ExitCode::no_device, fmt::format("device.type={}: {}, or write device.type=cpu", name, text));
}

OwnLibrary open_library(const std::string& name, const fs::path& directory) {
  return OwnLibrary({.name = name,
                     .to_build = "build it where nvcc and cuDNN 9 are installed (scripts/build.sh)",
                     .refuse = [name](const std::string& text) { refuse_device(name, text); }},
                    directory);
}

}  // namespace

Backend load_backend(const std::string& name, const fs::path& directory, const BackendRequest& request) {
  if (name != "cuda") {
    throw Error(ExitCode::no_device,
                fmt::format("no library holds a backend \"{}\": there is \"cuda\"", name));
  }
  const OwnLibrary library = open_library(name, directory);
  auto* factory = library.exported<BackendFactory>(kBackendFactory);
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
  const OwnLibrary library = open_library(name, program_directory());
  std::vector<char> json(size_t{1} << 16);
  library.exported<BackendInspector>(kBackendInspector)(json.data(), json.size());
  return json.data();
}

}  // namespace trainer
