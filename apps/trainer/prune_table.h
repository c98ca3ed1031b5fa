// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/session/smaller_network.h"

namespace trainer {

/// A row for each product whose weights make channels: these, multiply-adds of one sample and parameters
/// before and after, and why channels stay; then one for all other operations, such as attention, and one for
/// the whole network. Two other floating point operations count as a multiply-add. `after` is the forward
/// part of the smaller network.
std::string prune_table(const SmallerNetwork& smaller, const Program& after);

}  // namespace trainer
