// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>

#include "core/engine/backend_library.h"

/// A backend with a device that fails with the exit code in FAKE_BACKEND.
extern "C" trainer::ExitCode trainer_open_backend(const char* /*interface*/,
                                                  const trainer::BackendRequest& /*request*/,
                                                  trainer::Backend& /*backend*/, char* reason,
                                                  size_t reason_bytes) {
  std::strncpy(reason, "the device has failed", reason_bytes);
  return static_cast<trainer::ExitCode>(std::atoi(std::getenv("FAKE_BACKEND")));
}
