// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <typeinfo>
#include <utility>

#include "core/engine/planner.h"
#include "core/graph/attribute.h"
#include "core/graph/ops/assign.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/for_each.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/zeros.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

/// Casts, updates of running statistics, and sums of gradients over micro-batches.
bool is_kind(const Program& program, const Node& node) {
  const Operation& op = *node.op;
  if (typeid(op) == typeid(Cast) || typeid(op) == typeid(Lerp)) return true;
  return is_sum(node) && std::ranges::any_of(node.inputs, [&](TensorId id) {
           return program.tensor(id).role == Role::gradient_sum;
         });
}

bool is_assign(const Node& node) {
  return dynamic_cast<const Assign*>(node.op.get()) != nullptr;
}

/// Nodes that wait to become one, and the assigns of their results.
struct Group {
  std::vector<Node> nodes, assigns;
};

/// Traverses one entry. A node waits until another one reads its result or changes its inputs, or the phase
/// ends.
class Joiner {
 public:
  Joiner(const Program& program, const Planner& planner) : program_(program), planner_(planner) {}

  std::vector<Node> join(std::vector<Node> nodes) {
    hoist_casts(nodes);
    for (Node& node : nodes) {
      if (put_off_assign(node)) continue;
      flush_before(node);
      if (may_wait(node)) {
        wait(std::move(node));
      } else {
        done_.push_back(std::move(node));
      }
    }
    flush_all();
    return std::move(done_);
  }

 private:
  /// Gradients read low weights until the step's end, so all may be cast at its beginning.
  void hoist_casts(std::vector<Node>& nodes) const {
    std::stable_partition(nodes.begin(), nodes.end(), [&](const Node& node) {
      return dynamic_cast<const Cast*>(node.op.get()) != nullptr &&
             program_.tensor(node.inputs[Cast::kX]).role == Role::parameter && may_wait(node);
    });
  }

  bool put_off_assign(Node& node) {
    if (!is_assign(node)) return false;
    const auto maker = makers_.find(node.inputs[Assign::kValue]);
    if (maker == makers_.end() || phase_ != node.phase) return false;
    groups_.at(maker->second).assigns.push_back(std::move(node));
    return true;
  }

  /// All that wait are of one phase.
  void flush_before(const Node& node) {
    if (node.phase != phase_) flush_all();
    phase_ = node.phase;
    std::set<size_t> wanted;
    for (const TensorId id : node.inputs) {
      if (const auto maker = makers_.find(id); maker != makers_.end()) wanted.insert(maker->second);
    }
    if (is_assign(node)) {
      const TensorId state = node.inputs[Assign::kState];
      for (auto reader = readers_.lower_bound({state, 0}); reader != readers_.end() && reader->first == state;
           ++reader)
        wanted.insert(reader->second);
    }
    for (const size_t number : wanted) flush(number);
  }

  void wait(Node node) {
    auto group = std::ranges::find_if(
        groups_, [&](const auto& waiting) { return are_alike(waiting.second.nodes[0], node); });
    if (group == groups_.end()) group = groups_.emplace(next_++, Group()).first;
    makers_.emplace(node.outputs[0], group->first);
    for (const TensorId id : node.inputs) readers_.emplace(id, group->first);
    group->second.nodes.push_back(std::move(node));
  }

  /// A node's inputs determine the rank that computes it, so such nodes stay alone.
  bool may_wait(const Node& node) const {
    if (!is_kind(program_, node) || node.again) return false;
    return !only_rank(program_.tensors, node) && !planner_.why_not(context_of(joined({node})));
  }

  /// All lerps of a group are skipped by one number.
  bool are_alike(const Node& a, const Node& b) const {
    const Operation &one = *a.op, &other = *b.op;
    if (typeid(one) != typeid(other) ||
        !std::ranges::equal(specs_of(program_.tensors, a.inputs), specs_of(program_.tensors, b.inputs), {},
                            &TensorSpec::dtype, &TensorSpec::dtype))
      return false;
    if (typeid(one) == typeid(Lerp)) return a.inputs[Lerp::kSkip] == b.inputs[Lerp::kSkip];
    return std::ranges::equal(attributes_of(one), attributes_of(other), {}, &Attribute::value,
                              &Attribute::value);
  }

  OpContext context_of(const Node& node) const {
    return {.op = *node.op,
            .inputs = specs_of(program_.tensors, node.inputs),
            .outputs = specs_of(program_.tensors, node.outputs)};
  }

  static Node joined(const std::vector<Node>& nodes) {
    const Node& first = nodes[0];
    std::vector<std::shared_ptr<const Operation>> ops;
    for (const Node& node : nodes) ops.push_back(node.op);
    Node all{.op = std::make_shared<ForEach>(std::move(ops), first.inputs.size(), first.outputs.size()),
             .inputs = {},
             .outputs = {},
             .origin = {},
             .phase = first.phase};
    for (const Node& node : nodes) {
      all.inputs.insert(all.inputs.end(), node.inputs.begin(), node.inputs.end());
      all.outputs.insert(all.outputs.end(), node.outputs.begin(), node.outputs.end());
    }
    return all;
  }

  void flush(size_t number) {
    Group group = std::move(groups_.extract(number).mapped());
    for (const Node& node : group.nodes) {
      makers_.erase(node.outputs[0]);
      for (const TensorId id : node.inputs) readers_.erase({id, number});
    }
    done_.push_back(group.nodes.size() == 1 ? std::move(group.nodes[0]) : joined(group.nodes));
    std::ranges::move(group.assigns, std::back_inserter(done_));
  }

  void flush_all() {
    while (!groups_.empty()) flush(groups_.begin()->first);
  }

  const Program& program_;
  const Planner& planner_;
  Phase phase_ = Phase::forward;    ///< of all waiting nodes
  std::map<size_t, Group> groups_;  ///< by number, in the order of creation
  size_t next_ = 0;
  std::map<TensorId, size_t> makers_;              ///< results of waiting groups, with their group
  std::set<std::pair<TensorId, size_t>> readers_;  ///< inputs of waiting groups
  std::vector<Node> done_;
};

/// The gradient of weights in the type of its images; nullptr if the node is another or the device
/// refuses.
std::shared_ptr<const Conv2dBackwardWeights> low_gradient(const Program& program, const Node& node,
                                                          const Planner& planner) {
  const auto* op = dynamic_cast<const Conv2dBackwardWeights*>(node.op.get());
  const DType dtype = op == nullptr ? DType::f32 : program.spec(node.inputs[Conv2dBackwardWeights::kX]).dtype;
  if (!is_low(dtype)) return nullptr;
  const auto low = std::make_shared<Conv2dBackwardWeights>(op->geometry, op->w_shape, op->has_bias, dtype);
  OpContext context{.op = *low, .inputs = specs_of(program.tensors, node.inputs), .outputs = {}};
  context.outputs = low->infer(context.inputs);
  return planner.why_not(context) ? nullptr : low;
}

/// If a device rounds a gradient of weights before it converts it to f32, the conversion becomes a node.
void part_casts_of_gradients(Program& program, Entry& entry, const Planner& planner) {
  std::vector<Node> nodes;
  for (Node& node : entry.nodes) {
    const TensorId wide = node.outputs.empty() ? kNone : node.outputs[0];
    const auto low = wide == kNone ? nullptr : low_gradient(program, node, planner);
    nodes.push_back(std::move(node));
    if (low == nullptr) continue;
    Node& made = nodes.back();
    const TensorSpec spec{program.spec(wide).shape, low->dtype};
    made.op = low;
    made.outputs[Conv2dBackwardWeights::kDweight] =
        program.add({.name = "", .spec = spec, .role = program.tensor(wide).role, .initial = {}});
    nodes.push_back({.op = std::make_shared<Cast>(DType::f32),
                     .inputs = {made.outputs[Conv2dBackwardWeights::kDweight]},
                     .outputs = {wide},
                     .origin = made.origin,
                     .phase = made.phase});
  }
  entry.nodes = std::move(nodes);
}

/// Whether a convolution computes sums that are read. When it is recomputed they are not.
bool adds_up(const Node& node) {
  const auto* conv = dynamic_cast<const Conv2d*>(node.op.get());
  return conv != nullptr && conv->moments && node.outputs[Conv2d::kSums] != kNone &&
         node.outputs[Conv2d::kSquares] != kNone;
}

/// Sums that a device accumulates in place are cleared at the entry's beginning, all at once.
void clear_sums(Program& program, Entry& entry, const Planner& planner) {
  std::vector<Shape> shapes;
  for (const Node& node : entry.nodes) {
    if (adds_up(node)) shapes.insert(shapes.end(), 2, program.spec(node.outputs[Conv2d::kSums]).shape);
  }
  const auto op = std::make_shared<Zeros>(shapes);
  if (shapes.empty() || planner.why_not({.op = *op, .inputs = {}, .outputs = op->infer({})})) return;
  Node zeros{.op = op, .inputs = {}, .outputs = {}, .origin = {}};
  for (Node& node : entry.nodes) {
    if (!adds_up(node)) continue;
    for (const auto& [sums, zero] :
         {std::pair{Conv2d::kSums, Conv2d::kZeroSums}, std::pair{Conv2d::kSquares, Conv2d::kZeroSquares}}) {
      zeros.outputs.push_back(program.add(Tensor(program.tensor(node.outputs[sums]))));
      node.inputs[zero] = zeros.outputs.back();
    }
  }
  entry.nodes.insert(entry.nodes.begin(), std::move(zeros));
}

/// Evaluation keeps low-precision copies no longer than a layer needs them.
bool is_of_step(const Entry& entry) {
  return std::ranges::count(entry_name::kOfStep, entry.name) > 0;
}

}  // namespace

Pass fuse_horizontally(const Planner& planner) {
  auto run = [&planner](Program& program) {
    for (Entry& entry : program.entries) {
      if (!is_of_step(entry)) continue;
      part_casts_of_gradients(program, entry, planner);
      entry.nodes = Joiner(program, planner).join(std::move(entry.nodes));
      clear_sums(program, entry, planner);
    }
  };
  return {.name = "fuse_horizontally",
          .help =
              "cast all weights in one kernel, move all running statistics in one, add gradients to those of "
              "other "
              "micro-batches in one and clear all sums in one, if the device can",
          .optional = true,
          .run = run,
          .after = {"dead_code"}};
}

std::optional<Pass> fuse_horizontally_pass(const PassSettings& settings) {
  if (!settings.trains || settings.planner == nullptr) return std::nullopt;
  return fuse_horizontally(*settings.planner);
}

}  // namespace trainer
