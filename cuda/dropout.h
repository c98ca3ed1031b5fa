// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"
#include "core/graph/ops/dropout.h"

namespace trainer::cuda {

/// Samples of `width` elements that are adjacent, with each one's index in the data and the step.
struct Samples {
  int64_t count, width;
  DType dtype;
  const int32_t *index, *step;
};

/// Rows of `width` elements, of one of several ranks, and their places in whole samples: see DropoutPart.
/// Rows beyond the samples are padding.
struct SampleRows {
  int64_t samples;  ///< of all ranks
  DType dtype;
  const int32_t *index, *step;
  int64_t rows, width;
  int64_t of_sample, whole_width, first_row, first_column;
};

// y may be x.

/// Word e % 4 of the block e / 4 decides about element e of a sample.
cudaError_t launch_dropout(const DropoutSettings& settings, const Samples& samples, const void* x, void* y,
                           cudaStream_t stream);
/// The same for some rows, or for some columns of each.
cudaError_t launch_dropout(const DropoutSettings& settings, const SampleRows& rows, const void* x, void* y,
                           cudaStream_t stream);
/// Word 0 of block 0 decides about all of a sample.
cudaError_t launch_stochastic_depth(const DropoutSettings& settings, const Samples& samples, const void* x,
                                    void* y, cudaStream_t stream);

}  // namespace trainer::cuda
