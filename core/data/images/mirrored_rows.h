// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/row_reader.h"

namespace trainer {

/// The same rows, each of their images (C, H, W) mirrored left to right after all transforms. `inputs` are
/// those of the batches.
std::unique_ptr<RowReader> mirror_rows(std::unique_ptr<RowReader> rows, const BatchInputs& inputs);

}  // namespace trainer
