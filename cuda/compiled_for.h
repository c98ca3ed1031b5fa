// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace trainer::cuda {

/// Whether a GPU of this capability (90 for 9.0) can run kernels built for these architectures, as CMake
/// writes them: "80-real,90-real,100". Machine code runs on its generation from its own number on, PTX on all
/// later.
bool runs_on(std::string_view architectures, int capability);

}  // namespace trainer::cuda
