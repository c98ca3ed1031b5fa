// SPDX-License-Identifier: Apache-2.0
#include "core/pruning/channel_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <unordered_set>
#include <utility>

namespace trainer {
namespace {

constexpr size_t kNoChannel = std::numeric_limits<size_t>::max();

/// Sets that are merged until all is known.
class DisjointSets {
 public:
  size_t add(size_t count) {
    const size_t first = parent_.size();
    parent_.resize(first + count);
    std::iota(parent_.begin() + static_cast<std::ptrdiff_t>(first), parent_.end(), first);
    return first;
  }
  size_t find(size_t element) {
    while (parent_[element] != element) element = parent_[element] = parent_[parent_[element]];
    return element;
  }
  void merge(size_t a, size_t b) { parent_[find(a)] = find(b); }
  size_t size() const { return parent_.size(); }

 private:
  std::vector<size_t> parent_;
};

/// Whether a layer calculates the tensor's values from its size, so that a smaller layer would have others
/// than those that remain.
bool is_constant_table(const Tensor& tensor) {
  return tensor.role == Role::constant && tensor.initial.kind == Initial::Kind::table;
}

bool has_values(const Program& program, TensorId id) {
  const Role role = program.tensor(id).role;
  return role == Role::parameter || role == Role::state;
}

/// Couples the positions of one entry's tensors.
class Coupling {
 public:
  Coupling(const Program& program, const Entry& entry,
           const std::function<std::string(const Origin&)>& layer_of)
      : program_(program), entry_(entry), layer_of_(layer_of), first_(program.tensors.size()) {}

  CoupledChannels run() {
    for (const NamedTensor& output : entry_.outputs) keep(output.tensor, {}, "the network's output");
    for (const Node& node : entry_.nodes) {
      for (const TensorId id : node.inputs) {
        if (id == kNone) continue;
        const Tensor& tensor = program_.tensor(id);
        if (is_from_outside(tensor.role)) keep(id, {}, "the network's input");
        if (is_constant_table(tensor)) keep(id, {}, "a constant table");
      }
    }
    for (const Node& node : entry_.nodes) couple(node);
    number();
    group();
    return std::move(found_);
  }

 private:
  /// The element of a tensor's first position along a dimension.
  size_t first(TensorId id, size_t dimension) {
    std::vector<size_t>& begins = first_[static_cast<size_t>(id)];
    if (begins.empty()) {
      for (const int64_t size : program_.spec(id).shape)
        begins.push_back(sets_.add(static_cast<size_t>(size)));
      used_.push_back(id);
    }
    return begins[dimension];
  }

  /// Keeps a tensor's positions as they are, all but those that are named.
  void keep(TensorId id, const std::unordered_set<size_t>& named, const std::string& why) {
    const Shape& shape = program_.spec(id).shape;
    whys_.push_back(why);
    for (size_t d = 0; d < shape.size(); ++d) {
      for (size_t i = 0; i < static_cast<size_t>(shape[d]); ++i) {
        const size_t element = first(id, d) + i;
        if (!named.contains(element)) stays_.emplace_back(element, whys_.size() - 1);
      }
    }
  }

  static TensorId operand(const Node& node, const ChannelPlace& place) {
    const std::vector<TensorId>& operands = place.is_output ? node.outputs : node.inputs;
    return place.operand < operands.size() ? operands[place.operand] : kNone;
  }

  void couple(const Node& node) {
    const auto [inputs, outputs] = node_specs(program_, node);
    std::unordered_set<size_t> named;
    for (const ChannelLink& link : node.op->channel_links(inputs, outputs)) couple(node, link, named);
    const std::string why =
        fmt::format("'{}' ({}) needs all of them", layer_of_(node.origin), node.op->name());
    for (const std::vector<TensorId>* operands : {&node.inputs, &node.outputs}) {
      for (const TensorId id : *operands) {
        if (id != kNone) keep(id, named, why);
      }
    }
  }

  /// Merges the positions of each channel of a link, and adds them to those that links name.
  void couple(const Node& node, const ChannelLink& link, std::unordered_set<size_t>& named) {
    std::vector<size_t> one(static_cast<size_t>(link.channels), kNoChannel);
    for (const ChannelPlace& place : link.places) {
      const TensorId id = operand(node, place);
      if (id == kNone) continue;
      const int64_t size = program_.spec(id).shape.at(place.dimension);
      const int64_t length = place.length == 0 ? size - place.begin : place.length;
      if (place.begin + length > size || length % (place.each * link.channels) != 0)
        throw std::logic_error(fmt::format("{} names channels that it does not have", node.op->name()));
      const size_t begin = first(id, place.dimension) + static_cast<size_t>(place.begin);
      for (int64_t i = 0; i < length; ++i) {
        const size_t element = begin + static_cast<size_t>(i);
        size_t& channel = one[static_cast<size_t>(i / place.each % link.channels)];
        if (channel == kNoChannel) channel = element;
        sets_.merge(element, channel);
        named.insert(element);
      }
      if (has_values(program_, id)) uses_[id].insert({place.dimension, place.use});
    }
  }

  /// Numbers the channels.
  void number() {
    std::vector<size_t> numbers(sets_.size(), kNoChannel);
    found_.of.resize(first_.size());
    for (const TensorId id : used_) {
      const Shape& shape = program_.spec(id).shape;
      auto& dimensions = found_.of[static_cast<size_t>(id)];
      dimensions.resize(shape.size());
      for (size_t d = 0; d < shape.size(); ++d) {
        for (size_t i = 0; i < static_cast<size_t>(shape[d]); ++i) {
          size_t& number = numbers[sets_.find(first(id, d) + i)];
          if (number == kNoChannel) number = found_.count++;
          dimensions[d].push_back(number);
        }
      }
    }
    reasons_.resize(found_.count);
    for (const auto& [element, why] : stays_) {
      std::string& reason = reasons_[numbers[sets_.find(element)]];
      if (reason.empty()) reason = whys_[why];
    }
  }

  /// Puts together what differs in positions alone.
  void group() {
    std::vector<std::set<ChannelAxis>> axes(found_.count);
    for (const auto& [id, uses] : uses_) {
      for (const auto& [dimension, use] : uses) {
        for (const size_t channel : found_.of[static_cast<size_t>(id)][dimension])
          axes[channel].insert({id, dimension, use});
      }
    }
    std::map<std::pair<std::set<ChannelAxis>, std::string>, size_t> known;
    for (size_t channel = 0; channel < found_.count; ++channel) {
      const auto makes = [](const ChannelAxis& axis) { return axis.use == ChannelUse::makes; };
      if (std::ranges::none_of(axes[channel], makes)) continue;
      const auto [place, is_new] =
          known.try_emplace({axes[channel], reasons_[channel]}, found_.groups.size());
      if (is_new) {
        found_.groups.push_back({.axes = axes[channel],
                                 .channels = {},
                                 .width = width_of(channel, axes[channel]),
                                 .stays = reasons_[channel]});
      }
      found_.groups[place->second].channels.push_back(channel);
    }
    std::ranges::stable_sort(found_.groups, {},
                             [](const ChannelGroup& group) { return *group.axes.begin(); });
  }

  int64_t width_of(size_t channel, const std::set<ChannelAxis>& axes) const {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const ChannelAxis& axis : axes) {
      if (axis.use != ChannelUse::makes) continue;
      const std::vector<size_t>& positions = found_.of[static_cast<size_t>(axis.tensor)][axis.dimension];
      least = std::min<int64_t>(least, std::ranges::count(positions, channel));
    }
    return least;
  }

  const Program& program_;
  const Entry& entry_;
  const std::function<std::string(const Origin&)>& layer_of_;
  DisjointSets sets_;
  std::vector<std::vector<size_t>> first_;  ///< elements, by tensor and dimension
  std::vector<TensorId> used_;              ///< tensors that have elements, in their order
  std::map<TensorId, std::set<std::pair<size_t, ChannelUse>>> uses_;
  std::vector<std::pair<size_t, size_t>> stays_;  ///< elements, with their place in whys_
  std::vector<std::string> whys_;
  std::vector<std::string> reasons_;  ///< by channel
  CoupledChannels found_;
};

}  // namespace

CoupledChannels find_channels(const Program& program, const Entry& entry,
                              const std::function<std::string(const Origin&)>& layer_of) {
  return Coupling(program, entry, layer_of).run();
}

}  // namespace trainer
