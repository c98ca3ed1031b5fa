// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

/// The IDX format of MNIST: `PREFIX-images-idx3-ubyte[.gz]` and `PREFIX-labels-idx1-ubyte[.gz]`.
/// Headers are checked before memory is taken. A bad file throws Error (exit 65) with file and offset.
std::unique_ptr<ImageSource> open_idx(const std::string& prefix);

/// Reads the headers only.
SourceInfo peek_idx(const std::string& prefix);

/// Those of the two files that exist neither plain nor with `.gz`.
std::vector<std::string> missing_idx(const std::string& prefix);

}  // namespace trainer
