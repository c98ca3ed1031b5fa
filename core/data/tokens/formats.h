// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/data/formats.h"

namespace trainer {

/// The rows of formats whose samples are windows of tokens: `tokens` (shards) and `text`.
std::vector<SourceFormat> token_formats();

}  // namespace trainer
