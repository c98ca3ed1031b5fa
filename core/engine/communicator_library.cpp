// SPDX-License-Identifier: Apache-2.0
#include "core/engine/communicator_library.h"

#include <fmt/format.h>

#include <array>

#include "core/base/file.h"
#include "core/engine/own_library.h"

namespace trainer {

std::unique_ptr<Communicator> load_communicator(const std::string& name, const CommunicatorRequest& request) {
  const auto refuse = [&](const std::string& text) {
    throw Error(ExitCode::no_device, fmt::format("{} ranks on CPUs: {}", request.ranks, text));
  };
  const OwnLibrary library(
      {.name = name,
       .to_build = "build it where MPI's development files are installed (libopenmpi-dev; scripts/build.sh)",
       .refuse = refuse},
      program_directory());
  std::array<char, 1024> reason{};
  std::unique_ptr<Communicator> communicator;
  const ExitCode code = library.exported<CommunicatorFactory>(kCommunicatorFactory)(
      kCommunicatorInterface, request, communicator, reason.data(), reason.size());
  if (code == ExitCode::no_device) refuse(reason.data());
  if (code != ExitCode::done) throw Error(code, reason.data());
  return communicator;
}

}  // namespace trainer
