// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer {

/// The NCCL of this machine. Finding it needs neither GPU nor driver.
struct NcclLibrary {
  std::string version;  ///< "2.28.9"; "" with a problem
  std::string problem;  ///< why libnccl.so.2 cannot be used
};
NcclLibrary find_nccl();

}  // namespace trainer
