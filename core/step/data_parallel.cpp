// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

#include "core/graph/builder.h"
#include "core/graph/ops/all_reduce.h"
#include "core/graph/ops/assign.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/lerp.h"
#include "core/step/copy_entry.h"
#include "core/step/running_statistics.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Position of the node that makes each tensor of an entry.
std::map<TensorId, size_t> makers(const Entry& entry) {
  std::map<TensorId, size_t> found;
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    for (const TensorId id : entry.nodes[n].outputs) found[id] = n;
  }
  return found;
}

struct Bucket {
  Axis axis;
  std::vector<TensorId> members;
  int64_t bytes = 0;
  size_t last = 0;  ///< position of the node that makes its last member
};

/// What is added up over the ranks.
struct Members {
  std::vector<TensorId> whole = {};  ///< gradients of whole tensors
  std::vector<TensorId> parts = {};  ///< gradients of parts, which are sums of the ranks that share a copy
  std::vector<TensorId> late = {};   ///< with the last of the whole ones

  void put(const Program& program, TensorId of, TensorId gradient) {
    (is_sharded(program.tensor(of)) ? parts : whole).push_back(gradient);
  }
};

/// Appends the members, in the order in which they are made, in buckets of about this many bytes; `late` ones
/// are sent with the last.
void append_buckets(const Program& program, const Entry& entry, Axis axis, std::vector<TensorId> members,
                    const std::vector<TensorId>& late, int64_t bytes, std::vector<Bucket>& buckets) {
  if (members.empty() && late.empty()) return;
  const std::map<TensorId, size_t> made = makers(entry);
  std::ranges::stable_sort(members, {}, [&](TensorId id) { return made.at(id); });
  members.erase(std::unique(members.begin(), members.end()), members.end());
  buckets.push_back({.axis = axis, .members = {}});
  const auto put = [&](TensorId id) {
    Bucket& bucket = buckets.back();
    bucket.members.push_back(id);
    bucket.bytes += numel(program.spec(id).shape) * bytes_per_element(program.spec(id).dtype);
    bucket.last = std::max(bucket.last, made.at(id));
  };
  for (const TensorId id : members) {
    if (buckets.back().bytes >= bytes) buckets.push_back({.axis = axis, .members = {}});
    put(id);
  }
  for (const TensorId id : late) put(id);
}

/// Adds the members up over the ranks; returns each one's sum. The sums are complete at the entry's end.
std::map<TensorId, TensorId> add_up(Program& program, Entry& entry, const Members& members, const Mesh& mesh,
                                    int64_t bytes) {
  std::vector<Bucket> buckets;
  if (mesh.replicas > 1) append_buckets(program, entry, Axis::replicas, members.parts, {}, bytes, buckets);
  append_buckets(program, entry, Axis::data, members.whole, members.late, bytes, buckets);
  Entry scratch("");  // start and done of each bucket in turn
  Builder build(program, scratch);
  build.set_phase(Phase::backward);
  build.set_role(Role::gradient);
  std::map<TensorId, TensorId> sums;
  if (mesh.replicas == 1) {
    for (const TensorId part : members.parts) sums[part] = part;
  }
  const int64_t earlier = next_collective(entry);
  for (size_t i = 0; i < buckets.size(); ++i) {
    const int64_t number = earlier + static_cast<int64_t>(i);
    build.set_origin({{}, "bucket " + std::to_string(number)});
    const auto started =
        build.emit_all(std::make_shared<AllReduceStart>(number, buckets[i].axis), buckets[i].members);
    const auto done = build.emit_all(std::make_shared<CollectiveDone>(number, started.size()), started);
    for (size_t m = 0; m < done.size(); ++m) sums[buckets[i].members[m]] = done[m];
  }
  std::multimap<size_t, size_t> started;  // buckets by the node after which they start
  for (size_t i = 0; i < buckets.size(); ++i) started.emplace(buckets[i].last, i);
  std::vector<Node> nodes;
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    nodes.push_back(entry.nodes[n]);
    for (auto [bucket, end] = started.equal_range(n); bucket != end; ++bucket)
      nodes.push_back(scratch.nodes[2 * bucket->second]);
  }
  for (size_t i = 0; i < buckets.size(); ++i) nodes.push_back(scratch.nodes[2 * i + 1]);
  entry.nodes = std::move(nodes);
  return sums;
}

/// Whether it makes statistics that are the same on every rank, so that running ones stay equal: from a table
/// of all ranks' moments, and not from sums of a convolution on this rank.
bool is_of_all_ranks(const Node& node) {
  return dynamic_cast<const BatchNorm*>(node.op.get()) != nullptr && node.inputs[BatchNorm::kTable] != kNone;
}

/// The running statistics after the micro-batches of all ranks, in their order.
/// With one micro-batch of each rank: s + p (b - s) for each b in turn is one lerp with the sum of all b,
/// each decayed by the later ones.
class SharedStatistics {
 public:
  /// `shares`: the micro-batches of each rank.
  SharedStatistics(Program& program, Entry& entry, const std::vector<int64_t>& shares)
      : program_(program), entry_(entry), shares_(shares), after_(shares.size(), 0) {
    for (size_t rank = shares.size() - 1; rank > 0; --rank) after_[rank - 1] = after_[rank] + shares[rank];
    found_ = statistics_of(program, entry);
    const std::map<TensorId, size_t> made = makers(entry);
    std::erase_if(found_, [&](const Statistic& each) {
      return is_of_all_ranks(entry.nodes[made.at(each.lerp.inputs[Lerp::kFresh])]);
    });
    Builder build(program, entry);
    build.set_phase(Phase::backward);
    build.set_role(Role::gradient);
    remove_assigns();
    for (const Statistic& each : found_) {
      build.set_origin(each.lerp.origin);
      decayed_.push_back(build.emit<DecayByRank>({travels(each)}, decay(each), after_));
    }
  }

  const std::vector<TensorId>& members() const { return decayed_; }

  /// At the entry's end, from the sums. `kept`: each statistic's value from before the step, or nothing if
  /// the entry is the whole step.
  void move(const std::map<TensorId, TensorId>& sums, const std::vector<TensorId>& kept) {
    Builder build(program_, entry_);
    build.set_phase(Phase::backward);
    for (size_t i = 0; i < found_.size(); ++i) {
      build.set_origin(found_[i].lerp.origin);
      const TensorId sum = sums.at(decayed_[i]);
      build.assign(found_[i].state,
                   kept.empty() ? from_batches(build, found_[i], sum) : from_states(build, i, kept[i], sum));
    }
  }

  const std::vector<Statistic>& found() const { return found_; }

 private:
  static const Lerp& lerp_of(const Statistic& each) { return static_cast<const Lerp&>(*each.lerp.op); }
  /// One micro-batch of each rank: what travels are statistics of batches, not states.
  bool is_whole() const { return std::ranges::max(shares_) == 1; }
  /// The remaining share of a value after a micro-batch.
  static double decay(const Statistic& each) { return 1 - lerp_of(each).share; }
  TensorId travels(const Statistic& each) const {
    return is_whole() ? each.lerp.inputs[Lerp::kFresh] : each.lerp.outputs[Lerp::kY];
  }
  void remove_assigns() {
    if (is_whole()) return remove_moves(entry_, found_);
    std::set<TensorId> states;
    for (const Statistic& each : found_) states.insert(each.state);
    std::erase_if(entry_.nodes, [&](const Node& node) {
      return dynamic_cast<const Assign*>(node.op.get()) != nullptr &&
             states.contains(node.inputs[Assign::kState]);
    });
  }

  /// (1 - p)^R s + p f sum, as one lerp.
  TensorId from_batches(Builder& build, const Statistic& each, TensorId sum) const {
    const Lerp& one = lerp_of(each);
    if (one.share == 0) return build.emit<Lerp>({each.state, sum}, 0.0);
    const double share = 1 - std::pow(decay(each), static_cast<double>(shares_.size()));
    return build.emit<Lerp>({each.state, sum}, share, one.scale * one.share / share);
  }

  /// Every rank's value includes the original one, which must count only once, as in the first rank's. Of the
  /// others, what their own and all later micro-batches leave of it is taken off: s = sum - kept * (d^n1 +
  /// ... + d^n(R-1)), with n the number of these.
  TensorId from_states(Builder& build, size_t i, TensorId kept, TensorId sum) const {
    double surplus = 0;
    for (size_t rank = 1; rank < shares_.size(); ++rank)
      surplus += std::pow(decay(found_[i]), static_cast<double>(shares_[rank] + after_[rank]));
    return build.emit<Lerp>({kept, sum}, 1 + surplus, 1 / (1 + surplus));
  }

  Program& program_;
  Entry& entry_;
  const std::vector<int64_t>& shares_;
  std::vector<int64_t> after_;  ///< micro-batches of later ranks
  std::vector<Statistic> found_;
  std::vector<TensorId> decayed_;
};

void replace_output(Entry& entry, const std::map<TensorId, TensorId>& sums) {
  for (NamedTensor& output : entry.outputs) {
    if (output.name == output_name::kLoss || output.name == output_name::kLossWeight)
      output.tensor = sums.at(output.tensor);
  }
}

/// The whole step is one entry.
void share_step(Program& program, Entry& entry, const Mesh& mesh, int64_t bytes) {
  const std::vector<int64_t> shares(static_cast<size_t>(mesh.size(Axis::data)), 1);
  SharedStatistics statistics(program, entry, shares);
  Members members{.late = statistics.members()};
  for (const ParameterGradient& pair : entry.gradients) members.put(program, pair.parameter, pair.gradient);
  members.late.push_back(entry.output(output_name::kLoss));
  if (const TensorId weight = entry.output(output_name::kLossWeight); weight != kNone)
    members.late.push_back(weight);
  const std::map<TensorId, TensorId> sums = add_up(program, entry, members, mesh, bytes);
  for (ParameterGradient& pair : entry.gradients) pair.gradient = sums.at(pair.gradient);
  statistics.move(sums, {});
  replace_output(entry, sums);
}

/// The assigns of gradient sums, removed from the end of their entry.
std::vector<Node> take_out_sums(const Program& program, Entry& entry) {
  std::vector<Node> assigns;
  std::erase_if(entry.nodes, [&](const Node& node) {
    const bool is_sum = dynamic_cast<const Assign*>(node.op.get()) != nullptr &&
                        program.tensor(node.inputs[Assign::kState]).role == Role::gradient_sum;
    if (is_sum) assigns.push_back(node);
    return is_sum;
  });
  return assigns;
}

/// Adds each gradient to its sum right after it is made, not at the entry's end, so that it can be sent.
void add_early(Entry& entry, const std::vector<Node>& assigns) {
  const std::map<TensorId, size_t> made = makers(entry);
  std::map<size_t, std::vector<size_t>> followers;  // of each node, the additions that may come next
  std::vector<bool> moves(entry.nodes.size(), false);
  for (const Node& assign : assigns) {
    const size_t addition = made.at(assign.inputs[Assign::kValue]);
    const auto gradient = made.find(entry.nodes[addition].inputs[Binary::kB]);
    if (gradient == made.end()) continue;
    followers[gradient->second].push_back(addition);
    moves[addition] = true;
  }
  std::vector<Node> nodes;
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    if (!moves[n]) nodes.push_back(entry.nodes[n]);
    for (const size_t addition : followers[n]) nodes.push_back(entry.nodes[addition]);
  }
  entry.nodes = std::move(nodes);
}

/// Each running statistic's value from before the step, kept by the step's first run.
std::vector<TensorId> keep_statistics(Program& program, const std::vector<Statistic>& statistics) {
  Entry copies("");
  Builder keep(program, copies);
  std::vector<TensorId> kept;
  for (const Statistic& each : statistics) {
    const Tensor statistic = program.tensor(each.state);
    kept.push_back(
        program.persistent(statistic.name + state_suffix::kShared, statistic.spec, Role::gradient_sum, {}));
    keep.set_origin(each.lerp.origin);
    keep.assign(kept.back(), each.state);
  }
  Entry& first = program.entry(entry_name::kAccumulateFirst);
  first.nodes.insert(first.nodes.begin(), copies.nodes.begin(), copies.nodes.end());
  return kept;
}

/// A step that is one run has them in the states themselves until its end.
std::vector<TensorId> states_of(const std::vector<Statistic>& statistics) {
  std::vector<TensorId> states;
  for (const Statistic& each : statistics) states.push_back(each.state);
  return states;
}

/// The entry that a rank runs last adds its gradients to the sums and then those of all ranks. It is a copy
/// of `original`; a step begins with `beginning`, which may be the same entry.
void share_entry(Program& program, const char* original, const char* name, const Mesh& mesh,
                 const std::vector<int64_t>& shares, int64_t bytes) {
  const bool is_only = std::string_view(name) == entry_name::kAccumulateOnly;
  Entry copy = copy_entry(program, program.entry(original), name);
  const auto update = std::ranges::find(program.entries, entry_name::kUpdate, &Entry::name);
  program.entries.insert(update, std::move(copy));
  Entry& last = program.entry(name);
  const std::vector<Node> assigns = take_out_sums(program, last);
  if (!is_only) add_early(last, assigns);
  SharedStatistics statistics(program, last, shares);
  Members members{.late = statistics.members()};
  for (const Node& node : assigns) {
    const TensorId state = node.inputs[Assign::kState], value = node.inputs[Assign::kValue];
    const std::string& tensor = program.tensor(state).name;
    if (tensor == state_name::kGuardLoss || tensor == state_name::kLossWeight) {
      members.late.push_back(value);
    } else {
      members.put(program, state, value);
    }
  }
  const std::map<TensorId, TensorId> sums = add_up(program, last, members, mesh, bytes);
  Builder build(program, last);
  build.set_phase(Phase::backward);
  for (const Node& node : assigns) {
    build.set_origin(node.origin);
    const TensorId value = node.inputs[Assign::kValue];
    build.assign(node.inputs[Assign::kState], sums.at(value));
    if (program.tensor(node.inputs[Assign::kState]).name != state_name::kGuardLoss) continue;
    for (NamedTensor& output : last.outputs) {
      if (output.name == output_name::kLoss) output.tensor = sums.at(node.inputs[Assign::kValue]);
    }
  }
  statistics.move(sums,
                  is_only ? states_of(statistics.found()) : keep_statistics(program, statistics.found()));
}

}  // namespace

Pass data_parallel(const Mesh& mesh, const std::vector<int64_t>& shares, int64_t bucket_bytes) {
  auto run = [=](Program& program) {
    if (mesh.size(Axis::data) == 1) return;
    if (std::ranges::max(shares) == 1) {
      share_step(program, program.entry(entry_name::kTrainStep), mesh, bucket_bytes);
      return;
    }
    if (std::ranges::min(shares) == 1)
      share_entry(program, entry_name::kAccumulateFirst, entry_name::kAccumulateOnly, mesh, shares,
                  bucket_bytes);
    share_entry(program, entry_name::kAccumulateNext, entry_name::kAccumulateLast, mesh, shares,
                bucket_bytes);
  };
  return {.name = "data_parallel",
          .help = "add up the gradients of all ranks",
          .optional = false,
          .run = run,
          .after = {"autodiff", "accumulate", "sum_losses"}};
}

}  // namespace trainer
