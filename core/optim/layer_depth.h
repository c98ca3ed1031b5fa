// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

/// The distance of each parameter's layer from the last one, 0 for that, of all parameters' names in the
/// network's order. Numbered blocks, such as "blocks.3" or "layer1.0", count as one layer each, and so do the
/// layers before, between and after them, as in BEiT (Bao et al., arXiv:2106.08254). Without blocks every
/// layer counts.
std::vector<int64_t> depths_from_top(const std::vector<std::string>& names);

}  // namespace trainer
