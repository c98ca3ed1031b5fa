// SPDX-License-Identifier: Apache-2.0
#include "core/engine/process_group_library.h"

#include <fmt/format.h>

#include <array>

#include "core/base/file.h"
#include "core/engine/own_library.h"

namespace trainer {
namespace {

OwnLibrary open_library(const std::string& name, const std::function<void(const std::string&)>& refuse) {
  return OwnLibrary(
      {.name = name,
       .to_build = "build it where MPI's development files are installed (libopenmpi-dev, libmpich-dev; "
                   "scripts/build.sh)",
       .refuse = refuse},
      program_directory());
}

}  // namespace

std::unique_ptr<ProcessGroup> load_process_group(const std::string& name,
                                                 const ProcessGroupRequest& request) {
  const auto refuse = [&](const std::string& text) {
    throw Error(ExitCode::no_device, fmt::format("{} ranks on CPUs: {}", request.ranks, text));
  };
  const OwnLibrary library = open_library(name, refuse);
  std::array<char, 1024> reason{};
  std::unique_ptr<ProcessGroup> group;
  const ExitCode code = library.exported<ProcessGroupFactory>(kProcessGroupFactory)(
      kProcessGroupInterface, request, group, reason.data(), reason.size());
  if (code == ExitCode::no_device) refuse(reason.data());
  if (code != ExitCode::done) throw Error(code, reason.data());
  return group;
}

std::string describe_process_group(const std::string& name) {
  const OwnLibrary library =
      open_library(name, [](const std::string& text) { throw Error(ExitCode::no_device, text); });
  std::array<char, 256> text{};
  library.exported<ProcessGroupDescriber>(kProcessGroupDescriber)(text.data(), text.size());
  return text.data();
}

}  // namespace trainer
