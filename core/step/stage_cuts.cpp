// SPDX-License-Identifier: Apache-2.0
#include "core/step/stage_cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "core/config/messages.h"
#include "core/graph/operation.h"

namespace trainer {
namespace {

/// The time of a byte between two ranks, in floating point operations: a GPU computes 2000 while its link
/// moves one, a core of a CPU 30.
constexpr double kFlopsOfByte = 200;

/// What the layers cost, and what travels if a stage begins with one of them.
struct LayerCosts {
  std::vector<double> flops;
  std::vector<double> bytes;
};

LayerCosts costs_of(const Network& network, const Program& program) {
  const size_t layers = network.layers.size();
  std::map<std::string, size_t> by_path;
  for (size_t i = 0; i < layers; ++i) by_path.emplace(network.layers[i]->origin.path, i);
  LayerCosts costs{.flops = std::vector<double>(layers, 0), .bytes = std::vector<double>(layers, 0)};
  std::map<TensorId, size_t> made;       // by tensor its layer
  std::map<TensorId, size_t> last_read;  // by tensor the last layer that reads it
  for (const Node& node : program.entries.front().nodes) {
    const auto known = by_path.find(node.origin.path);
    const size_t layer = known == by_path.end() ? layers - 1 : known->second;
    const NodeSpecs specs = node_specs(program, node);
    costs.flops[layer] += node.op->flops(specs.inputs, specs.outputs);
    for (const TensorId id : node.outputs) made[id] = layer;
    for (const TensorId id : node.inputs) {
      if (made.contains(id)) last_read[id] = std::max(last_read[id], layer);
    }
  }
  for (const auto& [id, last] : last_read) {
    const TensorSpec& spec = program.spec(id);
    const auto bytes = static_cast<double>(numel(spec.shape) * bytes_per_element(spec.dtype));
    for (size_t border = made.at(id) + 1; border <= last; ++border) costs.bytes[border] += bytes;
  }
  return costs;
}

/// Time is worth more than bytes, but not the last few percent of it.
constexpr double kWorthBytes = 1.02;
constexpr double kNever = std::numeric_limits<double>::infinity();

/// Finds the first layer of each stage.
class Balance {
 public:
  Balance(const LayerCosts& costs, size_t stages)
      : bytes_(costs.bytes), stages_(stages), before_(costs.flops.size() + 1, 0) {
    for (size_t i = 0; i < costs.flops.size(); ++i) before_[i + 1] = before_[i] + costs.flops[i];
  }

  std::vector<size_t> run() const {
    const double fastest =
        best([](double so_far, double time, double) { return std::max(so_far, time); }).first;
    return best([limit = kWorthBytes * fastest](double so_far, double time, double bytes) {
             return time <= limit ? so_far + bytes : kNever;
           })
        .second;
  }

 private:
  double time(size_t begin, size_t end) const {
    return before_[end] - before_[begin] + (begin > 0 ? kFlopsOfByte * bytes_[begin] : 0);
  }

  /// The least sum(so far, a stage's time, the bytes that it receives) over all stages, with the cuts.
  template <class Sum>
  std::pair<double, std::vector<size_t>> best(const Sum& sum) const {
    const size_t layers = bytes_.size();
    std::vector<double> least(layers + 1, kNever);  // of the first layers, in the stages so far
    least[0] = 0;
    std::vector<std::vector<size_t>> begins;
    for (size_t stage = 0; stage < stages_; ++stage) {
      std::vector<double> next(layers + 1, kNever);
      std::vector<size_t> chosen(layers + 1, 0);
      for (size_t end = stage + 1; end <= layers; ++end) {
        for (size_t begin = stage; begin < end; ++begin) {
          if (least[begin] == kNever) continue;
          const double with = sum(least[begin], time(begin, end), begin > 0 ? bytes_[begin] : 0);
          if (with >= next[end]) continue;
          next[end] = with;
          chosen[end] = begin;
        }
      }
      least = std::move(next);
      begins.push_back(std::move(chosen));
    }
    std::vector<size_t> cuts;
    for (size_t stage = stages_, end = layers; stage-- > 1;) {
      end = begins[stage][end];
      cuts.push_back(end);
    }
    std::ranges::reverse(cuts);
    return {least[layers], cuts};
  }

  const std::vector<double>& bytes_;
  size_t stages_;
  std::vector<double> before_;  ///< FLOPs of all layers before each
};

std::string unknown_layer(const std::string& name, const std::vector<std::string>& names) {
  const auto near = nearest(name, names);
  return fmt::format("no layer is named '{}'{}", shown(name),
                     near ? fmt::format("; did you mean '{}'?", *near)
                          : "; `trainer plan --dump program` shows their names");
}

/// The first layer of each stage but the first.
std::vector<size_t> named(const Network& network, const PipelineSpec& spec) {
  const auto stages = static_cast<size_t>(spec.schedule.stages());
  if (spec.cuts.size() + 1 != stages) {
    fail_at(spec.origin_of_cuts,
            fmt::format("names {}, but {} stages need {}; name as many layers, or remove this key",
                        spec.cuts.size(), stages, stages - 1));
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < network.layers.size(); ++i) names.push_back(network.layer_name(i));
  std::vector<size_t> cuts;
  for (const std::string& name : spec.cuts) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) fail_at(spec.origin_of_cuts, unknown_layer(name, names));
    const auto layer = static_cast<size_t>(found - names.begin());
    if (layer == 0) {
      fail_at(
          spec.origin_of_cuts,
          fmt::format("'{}' is the first layer, which the first stage begins with; name later ones", name));
    }
    if (!cuts.empty() && layer <= cuts.back()) {
      fail_at(spec.origin_of_cuts,
              fmt::format("'{}' does not come after '{}'; write the layers in their order", name,
                          names[cuts.back()]));
    }
    cuts.push_back(layer);
  }
  return cuts;
}

std::vector<size_t> balanced_cuts(const Network& network, const Program& program, size_t stages) {
  const LayerCosts costs = costs_of(network, program);
  return Balance(costs, stages).run();
}

}  // namespace

void check_stages(const Network& network, const PipelineSpec& spec) {
  const auto layers = static_cast<int64_t>(network.layers.size());
  const int64_t stages = spec.schedule.stages();
  if (layers < stages) {
    // Of an interleaved schedule at least two stages are on each rank.
    const bool may_have_fewer = spec.schedule.chunks > 1 && layers >= 2 * spec.schedule.ranks;
    fail_at(may_have_fewer ? spec.origin_of_chunks : spec.origin,
            fmt::format("{} stages need as many layers, and the network has {}; write at most {}", stages,
                        layers, may_have_fewer ? layers / spec.schedule.ranks : layers));
  }
  if (!spec.cuts.empty()) named(network, spec);
}

std::vector<int64_t> stages_of_layers(const Network& network, const Program& program,
                                      const PipelineSpec& spec) {
  check_stages(network, spec);
  const std::vector<size_t> cuts =
      spec.cuts.empty() ? balanced_cuts(network, program, static_cast<size_t>(spec.schedule.stages()))
                        : named(network, spec);
  std::vector<int64_t> stage(network.layers.size(), 0);
  for (const size_t cut : cuts) {
    for (size_t i = cut; i < stage.size(); ++i) ++stage[i];
  }
  return stage;
}

}  // namespace trainer
