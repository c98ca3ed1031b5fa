// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "core/engine/library_answer.h"
#include "mpi/process_group.h"

// LibraryAnswer writes the reason. NOLINTBEGIN(readability-non-const-parameter)
extern "C" __attribute__((visibility("default"))) trainer::ExitCode trainer_open_process_group(
    const char* interface, const trainer::ProcessGroupRequest& request,
    std::unique_ptr<trainer::ProcessGroup>& group, char* reason, size_t reason_bytes) {
  return trainer::LibraryAnswer{reason, reason_bytes}.to_request(
      "the library of MPI beside the program", interface, trainer::kProcessGroupInterface,
      [&] { group = trainer::mpi::open(request); });
}

extern "C" __attribute__((visibility("default"))) void trainer_describe_process_group(char* text,
                                                                                      size_t bytes) {
  snprintf(text, bytes, "%s", trainer::mpi::describe().c_str());
}
// NOLINTEND(readability-non-const-parameter)
