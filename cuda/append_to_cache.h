// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/graph/ops/append_to_cache.h"
#include "cuda/launch.h"

namespace trainer::cuda {

/// Writes `rows` over the rows of each sample's cache from `*place` on; those after its end are left out.
cudaError_t launch_append_to_cache(const AppendSizes& sizes, const int32_t* place, const void* rows,
                                   void* cache, cudaStream_t stream);

}  // namespace trainer::cuda
