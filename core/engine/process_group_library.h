// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/engine/process_group.h"

namespace trainer {

/// The interface between program and library; see kBackendInterface.
constexpr const char* kProcessGroupInterface = "trainer process group interface 7, compiled by " __VERSION__;

/// The group that a run asks for.
struct ProcessGroupRequest {
  int64_t rank = 0, ranks = 1;        ///< as the launcher says; the engine must agree
  std::chrono::seconds timeout{300};  ///< of other ranks, one of which may load or save
  /// Called by any thread after the timeout, with what this rank waited for. It does not return.
  std::function<void(const std::string& text)> on_lost;
};

/// The function of a library that opens its group. It writes the reason for a code other than `done` to
/// `reason`.
using ProcessGroupFactory = ExitCode(const char* interface, const ProcessGroupRequest& request,
                                     std::unique_ptr<ProcessGroup>& group, char* reason, size_t reason_bytes);
constexpr const char* kProcessGroupFactory = "trainer_open_process_group";

/// The other function that it exports: writes the MPI release, ended by a zero.
using ProcessGroupDescriber = void(char* text, size_t bytes);
constexpr const char* kProcessGroupDescriber = "trainer_describe_process_group";

/// The group of libtrainer_NAME.so beside the program. The MPI library must be loaded (ranks/mpi_library.h).
/// Throws Error (exit 69) with the remedy if the library cannot be used.
std::unique_ptr<ProcessGroup> load_process_group(const std::string& name, const ProcessGroupRequest& request);

/// The release of the loaded MPI, "Open MPI v4.1.4". Starts nothing. Throws as load_process_group does.
std::string describe_process_group(const std::string& name);

}  // namespace trainer
