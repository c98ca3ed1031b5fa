// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/base/text_cache.h"
#include "core/engine/backend.h"
#include "core/engine/communicator.h"
#include "core/engine/device_description.h"
#include "core/engine/tuning.h"

namespace trainer {

/// What a backend's library and the program must agree on, since classes and their virtual functions cross
/// between the two. Raise the number when Planner, Device, Kernel, Operation or a type in their signatures
/// changes.
constexpr const char* kBackendInterface = "trainer backend interface 12, compiled by " __VERSION__;

/// What a run wants of its device.
struct BackendRequest {
  const DeviceDescription* described = nullptr;  ///< only plan, for this one
  Tuning* tuning = nullptr;          ///< time algorithms, keep the fastest here; outlives the backend
  std::shared_ptr<TextCache> cache;  ///< of all runs of the user, for what takes long to find; may be null
  int index = 0;                     ///< which of the GPUs that the process sees
  Communicator* ranks = nullptr;     ///< where several train together; outlives the backend
  int64_t local_rank = 0;            ///< among those on this host: they take its GPUs in turn, not `index`
  bool tf32 = false;                 ///< products of f32 may round their factors to 10 bits
  bool deterministic = false;        ///< no algorithm whose results vary from run to run
};

/// The function of a backend's library that fills in `backend`, under this name: a planner and, unless the
/// request describes a device, the device. If there can be none it leaves both null, writes to `reason`
/// why, and what to do, ended by a zero, and returns the exit code. No exception leaves it.
constexpr const char* kBackendFactory = "trainer_open_backend";
using BackendFactory = ExitCode(const char* interface, const BackendRequest& request, Backend& backend,
                                char* reason, size_t reason_bytes);

/// The other function that it exports: writes what this machine has for the backend as JSON, ended by a zero;
/// versions as text under `driver`, `runtime`, …, GPUs under `devices`, each with `properties` as cuDNN has
/// them, and under `problem` why something is missing.
constexpr const char* kBackendInspector = "trainer_inspect_backend";
using BackendInspector = void(char* json, size_t bytes);

/// Opens libtrainer_NAME.so from `directory` or its sibling `lib`; the library stays open until the process
/// ends. Throws Error with the reason and the remedy if the backend is not available here: exit 69, or what
/// the device failed with.
Backend load_backend(const std::string& name, const std::filesystem::path& directory,
                     const BackendRequest& request = {});

/// The same, beside the running program.
Backend load_backend(const std::string& name, const BackendRequest& request = {});

/// What the inspector of that library writes, which is looked for in the same places. Throws as load_backend.
std::string inspect_backend(const std::string& name);

}  // namespace trainer
