// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/base/text_cache.h"
#include "core/engine/backend.h"
#include "core/engine/device_description.h"
#include "core/engine/process_group.h"
#include "core/engine/tuning.h"

namespace trainer {

/// The interface between a backend's library and the program, since classes and their virtual functions cross
/// it. Raise the number when Planner, Device, Kernel, Operation or a type in their signatures changes.
constexpr const char* kBackendInterface = "trainer backend interface 16, compiled by " __VERSION__;

/// A run's requirements for its device.
struct BackendRequest {
  const DeviceDescription* described = nullptr;  ///< only plan, for this one
  Tuning* tuning = nullptr;          ///< time algorithms, keep the fastest here; outlives the backend
  std::shared_ptr<TextCache> cache;  ///< of all runs of the user, for slow searches; may be null
  int index = 0;                     ///< which of the GPUs that the process sees
  ProcessGroup* group = nullptr;     ///< if several ranks train together; outlives the backend
  int64_t ranks = 1;                 ///< of the run; several need memory to talk to each other
  int64_t local_rank = 0;            ///< among those on this host: they take its GPUs in turn, not `index`
  bool tf32 = false;                 ///< products of f32 may round their factors to 10 bits
  bool deterministic = false;        ///< no algorithm with results that vary from run to run
};

/// The function of a backend's library that fills in `backend`, under this name: a planner and, unless the
/// request describes a device, the device. On failure both are null, `reason` gets the reason and the remedy,
/// ended by a zero, and the exit code is returned. No exception leaves it.
constexpr const char* kBackendFactory = "trainer_open_backend";
using BackendFactory = ExitCode(const char* interface, const BackendRequest& request, Backend& backend,
                                char* reason, size_t reason_bytes);

/// The library's other function: writes this machine's support for the backend as JSON, ended by a zero.
/// `driver`, `runtime`, … are versions as text, `devices` the GPUs, each with its `pci_bus_id` and with
/// `properties` as in cuDNN, and `problem` says why something is missing.
constexpr const char* kBackendInspector = "trainer_inspect_backend";
using BackendInspector = void(char* json, size_t bytes);

/// Opens libtrainer_NAME.so from `directory` or its sibling `lib`; the library stays open until the process
/// ends. Throws Error with the reason and the remedy if the backend is not available here: exit 69, or the
/// device's exit code.
Backend load_backend(const std::string& name, const std::filesystem::path& directory,
                     const BackendRequest& request = {});

/// The same, beside the running program.
Backend load_backend(const std::string& name, const BackendRequest& request = {});

/// The output of that library's inspector; the library is searched for in the same places. Throws as
/// load_backend.
std::string inspect_backend(const std::string& name);

}  // namespace trainer
