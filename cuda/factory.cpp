// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"
#include "core/engine/backend_library.h"
#include "core/engine/library_answer.h"
#include "cuda/backend.h"
#include "cuda/inspect.h"

extern "C" __attribute__((visibility("default"))) trainer::ExitCode trainer_open_backend(
    const char* interface, const trainer::BackendRequest& request, trainer::Backend& backend, char* reason,
    size_t reason_bytes) {
  return trainer::LibraryAnswer{reason, reason_bytes}.to_request(
      "libtrainer_cuda.so", interface, trainer::kBackendInterface,
      [&] { backend = trainer::cuda::make_backend(request); });
}

extern "C" __attribute__((visibility("default"))) void trainer_inspect_backend(char* json, size_t bytes) {
  const trainer::LibraryAnswer answer{json, bytes};
  try {
    answer.write(trainer::cuda::inspect());
  } catch (const std::exception& problem) {
    answer.write(trainer::Json{{"problem", problem.what()}}.dump());
  }
}
