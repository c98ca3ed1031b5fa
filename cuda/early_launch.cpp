// SPDX-License-Identifier: Apache-2.0
#include "cuda/early_launch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace trainer::cuda {

void read_early_launch() {
  const char* value = std::getenv("TRAINER_PDL");
  const std::string text = value == nullptr ? "1" : value;
  if (text != "0" && text != "1") {
    throw Error(ExitCode::usage, fmt::format("TRAINER_PDL={}: expected 0, kernels start when those before "
                                             "have ended, or 1, they may start earlier",
                                             one_line(text)));
  }
  set_starts_early(text == "1");
}

}  // namespace trainer::cuda
