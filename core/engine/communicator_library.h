// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/engine/communicator.h"

namespace trainer {

/// What program and library must agree on; see kBackendInterface.
constexpr const char* kCommunicatorInterface = "trainer communicator interface 5, compiled by " __VERSION__;

/// What a run wants of its engine.
struct CommunicatorRequest {
  int64_t rank = 0, ranks = 1;         ///< as the launcher says; the engine must agree
  std::chrono::seconds patience{300};  ///< with other ranks, one of which may load or save
  /// Called, from any thread, if they have not: what this rank waited for. It does not return.
  std::function<void(const std::string& text)> on_lost;
};

/// The function of a library that opens its engine; the reason for a code other than `done` is put into
/// `reason`.
using CommunicatorFactory = ExitCode(const char* interface, const CommunicatorRequest& request,
                                     std::unique_ptr<Communicator>& communicator, char* reason,
                                     size_t reason_bytes);
constexpr const char* kCommunicatorFactory = "trainer_open_communicator";

/// The other function that it exports: writes which engine it was built for, ended by a zero.
using CommunicatorDescriber = void(char* text, size_t bytes);
constexpr const char* kCommunicatorDescriber = "trainer_describe_communicator";

/// The engine "mpi", from libtrainer_mpi.so beside the program. Throws Error (exit 69) if there is none
/// that can be used, with what to do.
std::unique_ptr<Communicator> load_communicator(const std::string& name, const CommunicatorRequest& request);

/// What that library says of itself: "built for Open MPI 4.1.4, finds Open MPI v4.1.4". Starts nothing.
/// Throws as load_communicator.
std::string describe_communicator(const std::string& name);

}  // namespace trainer
