// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "core/engine/library_answer.h"
#include "mpi/communicator.h"

// LibraryAnswer writes the reason. NOLINTBEGIN(readability-non-const-parameter)
extern "C" __attribute__((visibility("default"))) trainer::ExitCode trainer_open_communicator(
    const char* interface, const trainer::CommunicatorRequest& request,
    std::unique_ptr<trainer::Communicator>& communicator, char* reason, size_t reason_bytes) {
  return trainer::LibraryAnswer{reason, reason_bytes}.to_request(
      "libtrainer_mpi.so", interface, trainer::kCommunicatorInterface,
      [&] { communicator = trainer::mpi::open(request); });
}

extern "C" __attribute__((visibility("default"))) void trainer_describe_communicator(char* text,
                                                                                     size_t bytes) {
  snprintf(text, bytes, "%s", trainer::mpi::describe().c_str());
}
// NOLINTEND(readability-non-const-parameter)
