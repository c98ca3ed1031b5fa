// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "core/engine/planner.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/linear.h"
#include "core/passes/entry_editor.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

/// The input that a gradient's product adds, if it can add one: with a function after the product it
/// cannot.
std::optional<size_t> place_of_sum(const Node& product) {
  if (dynamic_cast<const LinearBackwardWeights*>(product.op.get()) != nullptr)
    return LinearBackwardWeights::kAdded;
  const auto* data = dynamic_cast<const LinearBackwardData*>(product.op.get());
  if (data == nullptr || data->factor != 1 || product.inputs[LinearBackwardData::kKept] != kNone) return {};
  return LinearBackwardData::kAdded;
}

class FuseProductSum {
 public:
  FuseProductSum(const Program& program, Entry& entry, const Planner& planner)
      : program_(program), planner_(planner), nodes_(entry) {
    for (const ParameterGradient& pair : entry.gradients) kept_.insert(pair.gradient);
  }

  void run() {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (!nodes_.is_removed(n) && is_sum(nodes_.node(n))) fuse(n);
    }
    nodes_.finish();
  }

 private:
  void fuse(size_t n) {
    const Node added = nodes_.node(n);
    for (const auto& [side, rest] : {std::pair{Binary::kB, Binary::kA}, std::pair{Binary::kA, Binary::kB}}) {
      const TensorId gradient = added.inputs[side], sum = added.inputs[rest];
      int visits = 0;
      const int product = that_takes(sum, gradient, visits);
      if (product == EntryEditor::kNobody) continue;
      nodes_.remove(n);
      const Node& node = nodes_.node(product);
      nodes_.set_inputs(static_cast<size_t>(product), with_input(node.inputs, *place_of_sum(node), sum));
      nodes_.set_output(static_cast<size_t>(nodes_.maker_of(gradient)), 0, added.outputs[Binary::kY]);
      return;
    }
  }

  /// The search in sums of sums is limited, so that a weight shared by all layers does not cost quadratic
  /// time.
  static constexpr int kMostVisits = 256;

  /// The product that can add `sum` instead of the node that adds it to `gradient`: the maker of the
  /// gradient, or of one of its summands. No other node may read a value in between.
  int that_takes(TensorId sum, TensorId gradient, int& visits) const {
    if (++visits > kMostVisits) return EntryEditor::kNobody;
    const bool is_read_once = nodes_.uses(gradient) + (kept_.contains(gradient) ? 1 : 0) == 1;
    const int maker = is_read_once ? nodes_.maker_of(gradient) : EntryEditor::kNobody;
    if (maker == EntryEditor::kNobody) return maker;
    const Node& node = nodes_.node(maker);
    if (is_sum(node))
      return std::max(that_takes(sum, node.inputs[Binary::kA], visits),
                      that_takes(sum, node.inputs[Binary::kB], visits));
    const std::optional<size_t> place = place_of_sum(node);
    if (!place || node.outputs[0] != gradient) return EntryEditor::kNobody;
    if (node.inputs[*place] != kNone) return that_takes(sum, node.inputs[*place], visits);
    const bool can_join =
        nodes_.exists_before(static_cast<size_t>(maker), sum) && device_adds(node, *place, sum);
    return can_join ? maker : EntryEditor::kNobody;
  }

  bool device_adds(const Node& node, size_t place, TensorId sum) const {
    return !planner_.why_not({.op = *node.op,
                              .inputs = specs_of(program_.tensors, with_input(node.inputs, place, sum)),
                              .outputs = specs_of(program_.tensors, node.outputs)});
  }

  const Program& program_;
  const Planner& planner_;
  EntryEditor nodes_;
  std::set<TensorId> kept_;  ///< gradients of parameters, which the update reads
};

}  // namespace

Pass fuse_product_sum(const Planner& planner) {
  auto run = [&planner](Program& program) {
    for (Entry& entry : program.entries) FuseProductSum(program, entry, planner).run();
  };
  return {.name = "fuse_product_sum",
          .help = "let the product that makes a gradient add its other summands, if the device can",
          .optional = true,
          .run = run,
          .after = {"autodiff", "fuse_classifier", "accumulate", "data_parallel"}};
}

std::optional<Pass> fuse_product_sum_pass(const PassSettings& settings) {
  if (!settings.trains || settings.planner == nullptr) return std::nullopt;
  return fuse_product_sum(*settings.planner);
}

}  // namespace trainer
