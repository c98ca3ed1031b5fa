// SPDX-License-Identifier: Apache-2.0
#include "core/graph/channel_link.h"

namespace trainer {
namespace {

ChannelLink link_along(size_t dimension, std::initializer_list<size_t> operands, const Shape& output) {
  ChannelLink link{.channels = output[dimension], .places = {channel_out(0, dimension)}};
  for (const size_t operand : operands) link.places.push_back(channel_in(operand, dimension));
  return link;
}

}  // namespace

std::vector<ChannelLink> links_of_elements(std::initializer_list<size_t> operands, const Shape& output) {
  std::vector<ChannelLink> links;
  for (size_t d = 0; d < output.size(); ++d) links.push_back(link_along(d, operands, output));
  return links;
}

std::vector<ChannelLink> links_of_channels(std::initializer_list<size_t> operands, const Shape& output) {
  return {link_along(1, operands, output)};
}

}  // namespace trainer
