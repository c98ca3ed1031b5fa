// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/engine/backend_library.h"
#include "cuda/backend.h"
#include "cuda/inspect.h"

namespace {

/// As much of the text as fits, ended by a zero.
void copy_text(const std::string& text, char* to, size_t bytes) {
  const size_t count = std::min(text.size(), bytes - 1);
  std::memcpy(to, text.data(), count);
  to[count] = '\0';
}

}  // namespace

extern "C" __attribute__((visibility("default"))) trainer::ExitCode trainer_open_backend(
    const char* interface, const trainer::BackendRequest& request, trainer::Backend& backend, char* reason,
    size_t reason_bytes) {
  using trainer::ExitCode;
  try {
    if (std::string(interface) == trainer::kBackendInterface) {
      backend = trainer::cuda::make_backend(request);
      return ExitCode::done;
    }
    copy_text(std::string("libtrainer_cuda.so comes from another build: it has ") +
                  trainer::kBackendInterface + ", the program expects " + interface +
                  "; install the two together",
              reason, reason_bytes);
    return ExitCode::no_device;
  } catch (const std::exception& problem) {
    const trainer::Failure failure = trainer::failure_of(problem);
    copy_text(failure.text, reason, reason_bytes);
    return failure.code;
  }
}

extern "C" __attribute__((visibility("default"))) void trainer_inspect_backend(char* json, size_t bytes) {
  try {
    copy_text(trainer::cuda::inspect(), json, bytes);
  } catch (const std::exception& problem) {
    copy_text(trainer::Json{{"problem", problem.what()}}.dump(), json, bytes);
  }
}
