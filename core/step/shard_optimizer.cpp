// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "core/graph/builder.h"
#include "core/graph/ops/all_reduce.h"
#include "core/graph/ops/assign.h"
#include "core/graph/ops/optimizer_steps.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// The parameters of each rank, by their position in the step: the largest ones first, each to the rank that
/// has least so far. The largest share is rank 0's, so its plan is a bound for all.
std::vector<std::vector<size_t>> shares_of(const std::vector<int64_t>& sizes, int64_t ranks) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t p) { return sizes[p]; });
  struct Share {
    int64_t size = 0;
    std::vector<size_t> parameters;
  };
  std::vector<Share> shares(static_cast<size_t>(ranks));
  for (const size_t p : order) {
    Share& least = *std::ranges::min_element(shares, {}, &Share::size);
    least.size += sizes[p];
    least.parameters.push_back(p);
  }
  std::ranges::stable_sort(shares, std::greater<>(), &Share::size);
  std::vector<std::vector<size_t>> found;
  for (Share& share : shares) {
    std::ranges::sort(share.parameters);
    found.push_back(std::move(share.parameters));
  }
  return found;
}

/// Rewrites the optimiser's update over all parameters: each rank updates over its own, holds their moments,
/// and sends the new weights to all.
class Sharding {
 public:
  Sharding(Program& program, Entry& entry, const Node& update)
      : program_(program),
        update_(update),
        op_(static_cast<const OptimizerStep&>(*update.op)),
        build_(program, entry) {
    build_.set_phase(Phase::update);
  }

  /// The nodes that replace the update; `update_` is then no longer in the entry.
  void append(int64_t ranks) {
    std::vector<int64_t> sizes;
    for (size_t p = 0; p < op_.parameters(); ++p) sizes.push_back(numel(program_.spec(weights(p)).shape));
    const std::vector<std::vector<size_t>> shares = shares_of(sizes, ranks);
    std::vector<std::vector<TensorId>> started;
    const int64_t first = next_collective(build_.entry());
    for (size_t rank = 0; rank < shares.size(); ++rank) {
      const auto from = static_cast<int64_t>(rank);
      if (shares[rank].empty()) continue;
      build_.set_origin({update_.origin.where, "rank " + std::to_string(rank)});
      append_update(shares[rank], from);
      senders_.push_back(from);
      started.push_back(
          build_.emit_all(std::make_shared<BroadcastStart>(first + from, from), new_weights(shares[rank])));
    }
    for (size_t i = 0; i < senders_.size(); ++i) {
      const auto from = senders_[i];
      build_.set_origin({update_.origin.where, "rank " + std::to_string(from)});
      const auto done =
          build_.emit_all(std::make_shared<CollectiveDone>(first + from, started[i].size()), started[i]);
      const std::vector<size_t>& share = shares[static_cast<size_t>(from)];
      for (size_t j = 0; j < share.size(); ++j) received_[update_.outputs[op_.output_of(share[j])]] = done[j];
    }
  }

  /// The received value that replaces one computed by the update.
  TensorId received(TensorId value) const {
    const auto found = received_.find(value);
    return found == received_.end() ? value : found->second;
  }

 private:
  TensorId weights(size_t p) const { return update_.inputs[op_.input_of(p)]; }

  std::vector<TensorId> new_weights(const std::vector<size_t>& share) const {
    std::vector<TensorId> found;
    for (const size_t p : share) found.push_back(update_.outputs[op_.output_of(p)]);
    return found;
  }

  /// The update over one rank's parameters; only that rank holds their moments.
  void append_update(const std::vector<size_t>& share, int64_t rank) {
    Node part = update_;
    part.inputs.resize(OptimizerStep::kFirstParameter);
    part.outputs.clear();
    part.origin = build_.origin();
    std::vector<ParameterSettings> settings;
    for (const size_t p : share) {
      settings.push_back(op_.settings[p]);
      const auto in = update_.inputs.begin() + static_cast<ptrdiff_t>(op_.input_of(p));
      const auto out = update_.outputs.begin() + static_cast<ptrdiff_t>(op_.output_of(p));
      part.inputs.insert(part.inputs.end(), in, in + 2 + static_cast<ptrdiff_t>(op_.moments));
      part.outputs.insert(part.outputs.end(), out, out + 1 + static_cast<ptrdiff_t>(op_.moments));
      for (size_t m = 0; m < op_.moments; ++m)
        program_.tensors[static_cast<size_t>(update_.inputs[op_.input_of(p) + 2 + m])].rank = rank;
    }
    part.op = std::make_shared<OptimizerStep>(op_.rule, std::move(settings));
    build_.entry().nodes.push_back(std::move(part));
  }

  Program& program_;
  Node update_;
  const OptimizerStep& op_;
  Builder build_;
  std::vector<int64_t> senders_;
  std::map<TensorId, TensorId> received_;
};

void shard(Program& program, Entry& entry, int64_t ranks) {
  const std::vector<Node> nodes = std::exchange(entry.nodes, {});
  std::optional<Sharding> sharding;
  for (const Node& node : nodes) {
    const auto* op = dynamic_cast<const OptimizerStep*>(node.op.get());
    if (op != nullptr && op->moments > 0) {
      sharding.emplace(program, entry, node);
      sharding->append(ranks);
      continue;
    }
    entry.nodes.push_back(node);
    if (sharding && dynamic_cast<const Assign*>(node.op.get()) != nullptr)
      entry.nodes.back().inputs[Assign::kValue] = sharding->received(node.inputs[Assign::kValue]);
  }
}

}  // namespace

Pass shard_optimizer(int64_t ranks) {
  return {.name = "shard_optimizer",
          .help = "give each rank a share of the optimizer's moments (parallelism.shard_optimizer)",
          .optional = false,
          .run = [ranks](Program& program) { shard(program, program.entry(updating_entry(program)), ranks); },
          .after = {"update"}};
}

}  // namespace trainer
