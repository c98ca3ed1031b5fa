// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/error.h"

namespace trainer {

/// For libraries that end the process where they fail, as those of MPI do. While one exists, an exit() of
/// another thread than the first prints `text` and has this code instead. One at a time.
class LibraryExit {
 public:
  LibraryExit(ExitCode code, const std::string& text);
  ~LibraryExit();
  LibraryExit(const LibraryExit&) = delete;
  LibraryExit& operator=(const LibraryExit&) = delete;
};

}  // namespace trainer
