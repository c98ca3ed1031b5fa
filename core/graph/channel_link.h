// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "core/graph/program.h"

namespace trainer {

/// What an operand has at a channel's positions.
enum class ChannelUse {
  passes,  ///< the channel's values, or what is added to them
  makes,   ///< weights whose products with the input are the channel
  scales,  ///< a normalisation's factor of the channel
  reads,   ///< weights of the channel in products
};

/// Positions along a dimension of an operand: `begin + i` belongs to channel `(i / each) % channels` of the
/// link, for 0 <= i < length.
struct ChannelPlace {
  bool is_output = false;
  size_t operand = 0, dimension = 0;
  ChannelUse use = ChannelUse::passes;
  int64_t each = 1;    ///< neighbours that belong to one channel
  int64_t begin = 0;   ///< as a concatenation's
  int64_t length = 0;  ///< 0: to the end of the dimension
};

/// Channels of an operation. One of them can be removed from all places at once: the others' values do not
/// depend on it, except by sums of products that lose its terms.
struct ChannelLink {
  int64_t channels = 0;
  std::vector<ChannelPlace> places;  ///< those of absent operands do not count
};

inline ChannelPlace channel_in(size_t operand, size_t dimension, ChannelUse use = ChannelUse::passes,
                               int64_t each = 1) {
  return {.is_output = false, .operand = operand, .dimension = dimension, .use = use, .each = each};
}
inline ChannelPlace channel_out(size_t operand, size_t dimension, int64_t each = 1) {
  return {.is_output = true, .operand = operand, .dimension = dimension, .each = each};
}

/// Links of an operation that computes each element of its first output from those at the same place of
/// `operands`, all of the output's shape.
std::vector<ChannelLink> links_of_elements(std::initializer_list<size_t> operands, const Shape& output);

/// Links of an operation on images (N, C, H, W) that computes each channel of its first output from the same
/// channel of `operands`, images too.
std::vector<ChannelLink> links_of_channels(std::initializer_list<size_t> operands, const Shape& output);

}  // namespace trainer
