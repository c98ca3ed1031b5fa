// SPDX-License-Identifier: Apache-2.0
#include "core/step/stages_of_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <stdexcept>

#include "core/graph/ops/exchange.h"

namespace trainer {
namespace {

constexpr std::string_view kSent = "sent.";

const Exchange* exchange_in(const Node& node) {
  return dynamic_cast<const Exchange*>(node.op.get());
}

class Finding {
 public:
  Finding(const Entry& entry, const PipelineSchedule& schedule)
      : entry_(entry), schedule_(schedule), found_(entry.nodes.size()) {}

  std::vector<std::set<int64_t>> run() {
    for (size_t n = 0; n < entry_.nodes.size(); ++n) follow_inputs(n);
    for (const NamedTensor& output : entry_.outputs) {
      const std::optional<size_t> route = sent_route(output);
      read(output.tensor, {route ? entry_.routes[*route].from : schedule_.stages() - 1});
    }
    for (size_t n = entry_.nodes.size(); n-- > 0;) follow_readers(n);
    for (size_t n = 0; n < entry_.nodes.size(); ++n) follow_makers(n);
    return std::move(found_);
  }

 private:
  void follow_inputs(size_t n) {
    const Node& node = entry_.nodes[n];
    std::optional<int64_t> stage;
    if (const Exchange* exchange = exchange_in(node)) {
      stage = exchange->to;
    } else if (const auto* receive = dynamic_cast<const Receive*>(node.op.get())) {
      stage = entry_.routes[receive->route].to;
    } else {
      for (const TensorId id : node.inputs) {
        if (const auto made = made_.find(id); made != made_.end()) stage = later(node, stage, made->second);
      }
    }
    if (!stage) return;
    found_[n] = {*stage};
    for (const TensorId id : node.outputs) {
      if (id != kNone) made_[id] = *stage;
    }
  }

  /// Of two stages of one rank the one that a micro-batch reaches later.
  int64_t later(const Node& node, std::optional<int64_t> one, int64_t other) const {
    if (!one) return other;
    if (schedule_.rank_of(*one) != schedule_.rank_of(other))
      throw std::logic_error(fmt::format("{} ({}) reads what the stages {} and {} make", node.op->name(),
                                         node.origin.path, *one, other));
    return node.phase == Phase::forward ? std::max(*one, other) : std::min(*one, other);
  }

  void follow_readers(size_t n) {
    const Node& node = entry_.nodes[n];
    if (found_[n].empty()) {
      for (const TensorId id : node.outputs) {
        if (const auto readers = readers_.find(id); readers != readers_.end())
          found_[n].insert(readers->second.begin(), readers->second.end());
      }
    }
    const Exchange* exchange = exchange_in(node);
    const std::set<int64_t> reading = exchange == nullptr ? found_[n] : std::set{exchange->from};
    for (const TensorId id : node.inputs) read(id, reading);
  }

  /// What nothing reads, such as the new value of a state, is where its inputs are made.
  void follow_makers(size_t n) {
    const Node& node = entry_.nodes[n];
    for (const TensorId id : node.inputs) {
      const auto maker = makers_.find(id);
      if (found_[n].empty() && maker != makers_.end()) found_[n] = found_[maker->second];
    }
    for (const TensorId id : node.outputs) {
      if (id != kNone) makers_[id] = n;
    }
  }

  void read(TensorId id, const std::set<int64_t>& stages) {
    if (id != kNone) readers_[id].insert(stages.begin(), stages.end());
  }

  const Entry& entry_;
  const PipelineSchedule& schedule_;
  std::vector<std::set<int64_t>> found_;
  std::map<TensorId, int64_t> made_;  ///< by tensor the stage of its maker, if it has one
  std::map<TensorId, size_t> makers_;
  std::map<TensorId, std::set<int64_t>> readers_;  ///< by tensor the stages that read it
};

}  // namespace

std::vector<std::set<int64_t>> stages_of_nodes(const Entry& entry, const PipelineSchedule& schedule) {
  return Finding(entry, schedule).run();
}

std::string sent_name(size_t route) {
  return fmt::format("{}{}", kSent, route);
}

std::optional<size_t> sent_route(const NamedTensor& output) {
  if (!output.name.starts_with(kSent)) return std::nullopt;
  size_t route = 0;
  const char* const begin = output.name.data() + kSent.size();
  std::from_chars(begin, output.name.data() + output.name.size(), route);
  return route;
}

}  // namespace trainer
