// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/graph/builder.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/assign.h"
#include "core/graph/ops/cast.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Rewrites an entry's gathers and scatters as halves.
class Overlapping {
 public:
  Overlapping(Program& program, Entry& entry, int64_t bytes)
      : program_(program),
        entry_(entry),
        bytes_(bytes),
        places_(entry.nodes.size() + 1),
        leaves_(entry.nodes.size(), false),
        next_(next_collective(entry)) {}

  void run() {
    note_makers();
    place_sums();  // first: what a gather reads may be scattered right before it
    place_gathers();
    std::vector<Node> nodes;
    for (size_t n = 0; n <= entry_.nodes.size(); ++n) {
      std::ranges::move(places_[n].before, std::back_inserter(nodes));
      if (n == entry_.nodes.size()) break;
      if (!leaves_[n]) nodes.push_back(std::move(entry_.nodes[n]));
      std::ranges::move(places_[n].after, std::back_inserter(nodes));
    }
    entry_.nodes = std::move(nodes);
  }

 private:
  /// New nodes before and after an existing one.
  struct Place {
    std::vector<Node> before, after;
  };

  /// Nodes that become one collective, in their order.
  struct Bucket {
    std::vector<size_t> members;
    int64_t bytes = 0;
    size_t earliest = 0;  ///< the node before which all that it reads is made
  };

  static const AllGather* gathers(const Node& node) { return dynamic_cast<const AllGather*>(node.op.get()); }

  int64_t bytes_of(TensorId id) const {
    return numel(program_.spec(id).shape) * bytes_per_element(program_.spec(id).dtype);
  }

  /// By tensor the node after which it has its value.
  void note_makers() {
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      const Node& node = entry_.nodes[n];
      for (const TensorId id : node.outputs) made_[id] = n;
      if (dynamic_cast<const Assign*>(node.op.get()) != nullptr) made_[node.inputs[Assign::kState]] = n;
    }
  }

  /// The cast of a persistent tensor that makes it; such a cast moves with the gather that reads it.
  std::optional<size_t> movable_cast(TensorId id) const {
    const auto made = made_.find(id);
    if (made == made_.end()) return std::nullopt;
    const Node& node = entry_.nodes[made->second];
    const bool casts = dynamic_cast<const Cast*>(node.op.get()) != nullptr;
    return casts && is_persistent(program_.tensor(node.inputs[Cast::kX]).role) ? std::optional(made->second)
                                                                               : std::nullopt;
  }

  /// The first place at which a node can read it, perhaps with its cast.
  size_t first_place(TensorId id) const {
    if (const auto cast = movable_cast(id)) id = entry_.nodes[*cast].inputs[Cast::kX];
    const auto made = made_.find(id);
    return made == made_.end() ? 0 : made->second + 1;
  }

  /// Gathers that follow each other share a bucket while they stay below its size. All of a bucket are
  /// complete at the first one's place, and start where the bucket before is complete.
  void place_gathers() {
    for (const Axis axis : kAxes) place_gathers(axis);
  }

  void place_gathers(Axis axis) {
    std::vector<Bucket> buckets;
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      const AllGather* op = gathers(entry_.nodes[n]);
      if (op == nullptr || op->along.axis != axis) continue;
      const int64_t bytes = bytes_of(entry_.nodes[n].outputs[AllGather::kWhole]);
      // A state that is assigned later is read before.
      const size_t made = first_place(entry_.nodes[n].inputs[AllGather::kPart]);
      const size_t earliest = made > n ? 0 : made > 0 && is_replaced(entry_.nodes[made - 1]) ? n : made;
      const bool joins = !buckets.empty() && buckets.back().bytes + bytes <= bytes_ &&
                         earliest <= buckets.back().members.front();
      if (!joins) buckets.emplace_back();
      Bucket& bucket = buckets.back();
      bucket.members.push_back(n);
      bucket.bytes += bytes;
      bucket.earliest = std::max(bucket.earliest, earliest);
      leaves_[n] = true;
    }
    size_t before = 0;
    for (const Bucket& bucket : buckets) {
      const size_t done = bucket.members.front();
      gather(bucket, std::max(bucket.earliest, before), done);
      before = done;
    }
  }

  /// Its result exists where another node reads it.
  static bool is_replaced(const Node& node) { return gathers(node) != nullptr || lane_of(node).has_value(); }

  void gather(const Bucket& bucket, size_t start, size_t done) {
    std::vector<TensorId> parts, wholes;
    std::vector<Shape> shapes;
    for (const size_t n : bucket.members) {
      const Node& node = entry_.nodes[n];
      parts.push_back(node.inputs[AllGather::kPart]);
      wholes.push_back(node.outputs[AllGather::kWhole]);
      shapes.push_back(program_.spec(wholes.back()).shape);
      const auto cast = movable_cast(parts.back());
      if (!cast || *cast < start || leaves_[*cast]) continue;
      places_[start].before.push_back(entry_.nodes[*cast]);
      places_[start].before.back().phase = entry_.nodes[start].phase;
      leaves_[*cast] = true;
    }
    const auto op = std::make_shared<AllGatherStart>(
        next_, gathers(entry_.nodes[bucket.members.front()])->along.axis, std::move(shapes));
    const Node begun = start_node(op, parts, wholes, entry_.nodes[start].phase);
    places_[start].before.push_back(begun);
    places_[done].before.push_back(done_node(begun, wholes, entry_.nodes[done].phase));
  }

  /// Sums of one kind along one axis, in their order. A bucket of them starts once it is full, or once
  /// something reads from it. It is done where the next one starts, or is read, and before the update: the
  /// search for a NaN leaves the step there.
  struct Lane {
    Bucket filling;
    std::optional<Node> begun;
  };
  using LaneKey = std::pair<Axis, bool>;  ///< with the kind: whether it scatters

  void finish(Lane& lane, std::vector<Node>& to, Phase phase) {
    if (!lane.begun) return;
    std::vector<TensorId> sums;
    for (const TensorId id : lane.begun->outputs) sums.push_back(sums_.at(id));
    for (const TensorId sum : sums) unfinished_.erase(sum);
    to.push_back(done_node(*lane.begun, sums, phase));
    lane.begun.reset();
  }

  void start(Lane& lane, std::vector<Node>& to, Phase phase) {
    if (lane.filling.members.empty()) return;
    finish(lane, to, phase);
    lane.begun = sum_up(lane.filling, phase);
    for (const TensorId id : lane.begun->outputs) unfinished_.at(sums_.at(id)).is_begun = true;
    to.push_back(*lane.begun);
    lane.filling = {};
  }

  void place_sums() {
    std::map<LaneKey, Lane> lanes;
    const auto complete = [&](std::vector<Node>& to, Phase phase) {
      for (auto& [key, lane] : lanes) {
        start(lane, to, phase);
        finish(lane, to, phase);
      }
    };
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      const Node& node = entry_.nodes[n];
      if (node.phase == Phase::update && n > 0) complete(places_[n].before, entry_.nodes[n - 1].phase);
      for (const TensorId id : node.inputs) {
        const auto read = unfinished_.find(id);
        if (read == unfinished_.end()) continue;
        Lane& lane = lanes.at(read->second.lane);
        if (!read->second.is_begun) start(lane, places_[n].before, node.phase);
        finish(lane, places_[n].before, node.phase);
      }
      const std::optional<LaneKey> key = lane_of(node);
      if (!key) continue;
      leaves_[n] = true;
      Lane& lane = lanes[*key];
      lane.filling.members.push_back(n);
      lane.filling.bytes += bytes_of(node.inputs[0]);
      unfinished_[node.outputs[0]] = {*key, false};
      if (lane.filling.bytes >= bytes_) start(lane, places_[n].after, node.phase);
    }
    complete(places_.back().before, entry_.nodes.empty() ? Phase::forward : entry_.nodes.back().phase);
  }

  /// Of a node that adds up.
  static std::optional<LaneKey> lane_of(const Node& node) {
    if (const auto* op = dynamic_cast<const ReduceScatter*>(node.op.get()))
      return LaneKey{op->along.axis, true};
    if (const auto* op = dynamic_cast<const AllReduce*>(node.op.get())) return LaneKey{op->along.axis, false};
    return std::nullopt;
  }

  Node sum_up(const Bucket& bucket, Phase phase) {
    std::vector<TensorId> given, sums;
    std::vector<Shape> shapes;
    for (const size_t n : bucket.members) {
      given.push_back(entry_.nodes[n].inputs[0]);
      sums.push_back(entry_.nodes[n].outputs[0]);
      shapes.push_back(program_.spec(sums.back()).shape);
    }
    const auto [axis, scatters] = *lane_of(entry_.nodes[bucket.members.front()]);
    std::shared_ptr<const Operation> op;
    if (scatters) {
      op = std::make_shared<ReduceScatterStart>(next_, axis, std::move(shapes));
    } else {
      op = std::make_shared<AllReduceStart>(next_, axis);
    }
    Node begun = start_node(op, given, sums, phase);
    for (size_t i = 0; i < sums.size(); ++i) sums_[begun.outputs[i]] = sums[i];
    return begun;
  }

  Node start_node(std::shared_ptr<const Operation> op, const std::vector<TensorId>& from,
                  const std::vector<TensorId>& to, Phase phase) {
    Node node{.op = std::move(op), .inputs = from, .outputs = {}, .origin = bucket_origin(), .phase = phase};
    for (const TensorId id : to) {
      Tensor travelling = program_.tensor(id);
      travelling.name.clear();
      node.outputs.push_back(static_cast<TensorId>(program_.tensors.size()));
      program_.tensors.push_back(std::move(travelling));
    }
    return node;
  }

  Node done_node(const Node& begun, const std::vector<TensorId>& to, Phase phase) {
    Node node{.op = std::make_shared<CollectiveDone>(static_cast<const CollectiveStart&>(*begun.op).number,
                                                     to.size(), begun.inputs.size()),
              .inputs = begun.outputs,
              .outputs = to,
              .origin = begun.origin,
              .phase = phase};
    node.inputs.insert(node.inputs.end(), begun.inputs.begin(), begun.inputs.end());
    return node;
  }

  Origin bucket_origin() { return {{}, "bucket " + std::to_string(next_++)}; }

  Program& program_;
  Entry& entry_;
  int64_t bytes_;
  std::vector<Place> places_;
  std::vector<bool> leaves_;  ///< nodes that are replaced or moved
  int64_t next_;              ///< the number of the next collective
  std::map<TensorId, size_t> made_;
  struct Unfinished {
    LaneKey lane;
    bool is_begun;
  };
  std::map<TensorId, TensorId> sums_;          ///< by output of a start, the sum that it becomes once done
  std::map<TensorId, Unfinished> unfinished_;  ///< sums that are not done
};

}  // namespace

Pass overlap_collectives(int64_t bucket_bytes) {
  auto run = [=](Program& program) {
    for (Entry& entry : program.entries) Overlapping(program, entry, bucket_bytes).run();
  };
  return {.name = "overlap_collectives",
          .help = "start gathers and sums of parts early, in buckets",
          .optional = false,
          .run = run,
          .after = {"shard_parameters", "update", "data_parallel"}};
}

}  // namespace trainer
