// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <typeindex>
#include <utility>

#include "core/graph/operation.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/element_loss.h"
#include "core/graph/ops/linear.h"
#include "core/passes/table.h"
#include "core/passes/uses.h"

namespace trainer {
namespace {

/// The form of an operation's outputs if it computes some samples at a time. Of a loss the first outputs are
/// sums; the others, which its gradient reads, are pieces.
enum class Outcome { piece, sum, join };

struct Rule {
  std::vector<size_t> by_sample;  ///< inputs with samples as the first dimension
  Outcome outcome;
  size_t pieces_from = SIZE_MAX;  ///< outputs from this one on are pieces

  Outcome of_output(size_t output) const { return output >= pieces_from ? Outcome::piece : outcome; }
};

/// For the operations between a linear layer and the gradients of its inputs.
const Rule* rule_of(const Operation& op) {
  static const std::map<std::type_index, Rule> table = {
      {typeid(Linear), {{Linear::kX}, Outcome::piece}},
      {typeid(Cast), {{Cast::kX}, Outcome::piece}},
      {typeid(CrossEntropy),
       {{CrossEntropy::kLogits, CrossEntropy::kLabels, CrossEntropy::kWeights, CrossEntropy::kOtherLabels,
         CrossEntropy::kMixWeights},
        Outcome::sum,
        CrossEntropy::kLargest}},
      {typeid(CrossEntropyBackward),
       {{CrossEntropyBackward::kLogits, CrossEntropyBackward::kLabels, CrossEntropyBackward::kWeights,
         CrossEntropyBackward::kOtherLabels, CrossEntropyBackward::kMixWeights,
         CrossEntropyBackward::kLargest, CrossEntropyBackward::kExpSum},
        Outcome::piece}},
      {typeid(CrossEntropySums),
       {{CrossEntropySums::kLogits, CrossEntropySums::kLabels, CrossEntropySums::kWeights},
        Outcome::sum,
        CrossEntropySums::kLargest}},
      {typeid(CrossEntropySumsBackward),
       {{CrossEntropySumsBackward::kLogits, CrossEntropySumsBackward::kLabels,
         CrossEntropySumsBackward::kWeights, CrossEntropySumsBackward::kLargest,
         CrossEntropySumsBackward::kExpSum},
        Outcome::piece}},
      {typeid(ElementLoss), {{ElementLoss::kX, ElementLoss::kTargets, ElementLoss::kWeights}, Outcome::sum}},
      {typeid(ElementLossBackward),
       {{ElementLossBackward::kX, ElementLossBackward::kTargets, ElementLossBackward::kWeights},
        Outcome::piece}},
      {typeid(TopK), {{TopK::kLogits, TopK::kLabels, TopK::kWeights}, Outcome::sum}},
      {typeid(LinearBackwardData), {{LinearBackwardData::kDy, LinearBackwardData::kKept}, Outcome::join}},
      {typeid(LinearBackwardWeights),
       {{LinearBackwardWeights::kX, LinearBackwardWeights::kDy}, Outcome::sum}}};
  const auto found = table.find(typeid(op));
  return found == table.end() ? nullptr : &found->second;
}

bool is_by_sample(const Rule& rule, size_t input) {
  return std::ranges::find(rule.by_sample, input) != rule.by_sample.end();
}

/// A linear layer and all nodes that depend on its logits, by position in the entry.
class Classifier {
 public:
  Classifier(const Entry& entry, size_t linear) : entry_(entry), nodes_{linear} {
    inside_.push_back(entry.nodes[linear].outputs[Linear::kY]);
    for (size_t n = linear + 1; n < entry.nodes.size() && fits_; ++n) take(n);
  }

  const std::vector<size_t>& nodes() const { return nodes_; }

  /// Whether all its nodes can move to the linear layer's position and compute some samples at a time.
  bool can_be_split() const {
    const bool has_loss = std::ranges::any_of(
        nodes_, [this](size_t n) { return entry_.nodes[n].op->judged_input().has_value(); });
    return fits_ && has_loss && std::ranges::all_of(nodes_, [this](size_t n) { return can_come_first(n); }) &&
           std::ranges::none_of(entry_.outputs, [this](const NamedTensor& output) {
             return output.name != output_name::kLogits && is_inside(output.tensor);
           });
  }

  bool is_inside(TensorId id) const { return std::ranges::find(inside_, id) != inside_.end(); }

 private:
  /// Adds a node that reads logits, or results computed from them.
  void take(size_t n) {
    const Node& node = entry_.nodes[n];
    const Rule* rule = rule_of(*node.op);
    bool reads = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNone || !is_inside(node.inputs[i])) continue;
      reads = true;
      fits_ = fits_ && rule != nullptr && is_by_sample(*rule, i);
    }
    if (!reads || !fits_) return;
    nodes_.push_back(n);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNone && rule->of_output(i) == Outcome::piece)
        inside_.push_back(node.outputs[i]);
    }
  }

  /// Whether a node's other inputs exist before the linear layer runs.
  bool can_come_first(size_t n) const {
    return std::ranges::all_of(entry_.nodes[n].inputs, [this](TensorId id) {
      return id == kNone || is_inside(id) || exists_before(entry_, nodes_[0], id);
    });
  }

  const Entry& entry_;
  std::vector<size_t> nodes_;
  std::vector<TensorId> inside_;  ///< tensors that exist in pieces only
  bool fits_ = true;
};

/// Rewrites an entry with the classifier's nodes run once for each piece of the samples.
class Splitting {
 public:
  Splitting(Program& program, Entry& entry, const Classifier& classifier)
      : program_(program), entry_(entry), classifier_(classifier), build_(program, entry) {}

  void run(int64_t samples, int64_t of_piece) {
    const std::vector<Node> before = std::exchange(entry_.nodes, {});
    const std::vector<size_t>& split = classifier_.nodes();
    for (size_t n = 0; n < before.size(); ++n) {
      if (n == split[0]) {
        for (const size_t each : split) region_.push_back(before[each]);
        for (int64_t begin = 0; begin < samples; begin += of_piece)
          add_piece(begin, std::min(of_piece, samples - begin));
        join();
      } else if (std::ranges::find(split, n) == split.end()) {
        entry_.nodes.push_back(before[n]);
      }
    }
    std::erase_if(entry_.outputs,
                  [this](const NamedTensor& output) { return classifier_.is_inside(output.tensor); });
  }

 private:
  void add_piece(int64_t begin, int64_t length) {
    pieces_.clear();
    for (const Node& node : region_) {
      build_.set_origin(node.origin);
      build_.set_phase(node.phase);
      build_.set_role(program_.tensor(node.outputs[0]).role);
      const Rule& rule = *rule_of(*node.op);
      std::vector<TensorId> inputs = node.inputs;
      for (const size_t i : rule.by_sample) {
        if (inputs[i] != kNone) inputs[i] = piece_of(inputs[i], begin, length);
      }
      const std::vector<TensorId> made = build_.emit_all(for_samples(node, length), inputs);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] != kNone) keep(rule.of_output(i), node.outputs[i], made[i]);
      }
    }
  }

  TensorId piece_of(TensorId whole, int64_t begin, int64_t length) {
    const auto [known, fresh] = pieces_.try_emplace(whole, kNone);
    if (fresh) known->second = build_.emit<Slice>({whole}, 0, begin, length);
    return known->second;
  }

  /// The operation; one that depends on the number of samples is made again.
  std::shared_ptr<const Operation> for_samples(const Node& node, int64_t length) const {
    const auto* data = dynamic_cast<const LinearBackwardData*>(node.op.get());
    if (data == nullptr) return node.op;
    Shape shape = data->x_shape;
    shape[0] = length;
    return std::make_shared<LinearBackwardData>(shape, data->transposed, data->gelu_tanh);
  }

  void keep(Outcome outcome, TensorId whole, TensorId made) {
    if (outcome == Outcome::piece) {
      pieces_[whole] = made;
    } else if (outcome == Outcome::join || !parts_.contains(whole)) {
      parts_[whole].push_back(made);
    } else {
      TensorId& sum = parts_[whole][0];
      sum = build_.emit<Binary>({sum, made}, Binary::Kind::add);
    }
  }

  /// The results of all pieces replace those of the whole.
  void join() {
    for (auto& [whole, parts] : parts_) {
      if (parts.size() > 1) parts = {build_.emit<Concat>(parts, 0)};
      rename(parts[0], whole);
    }
  }

  void rename(TensorId from, TensorId to) {
    for (Node& node : entry_.nodes) {
      std::ranges::replace(node.inputs, from, to);
      std::ranges::replace(node.outputs, from, to);
    }
  }

  Program& program_;
  Entry& entry_;
  const Classifier& classifier_;
  Builder build_;
  std::vector<Node> region_;
  std::map<TensorId, TensorId> pieces_;              ///< of this piece, by the whole
  std::map<TensorId, std::vector<TensorId>> parts_;  ///< to join, or one: the sum so far
};

void split_in(Program& program, Entry& entry, int64_t piece_bytes) {
  for (size_t n = 0; n < entry.nodes.size(); ++n) {
    const auto* linear = dynamic_cast<const Linear*>(entry.nodes[n].op.get());
    if (linear == nullptr || linear->function != LinearFunction::none) continue;
    const Shape logits = program.spec(entry.nodes[n].outputs[Linear::kY]).shape;
    const int64_t of_sample = numel(logits) / logits[0] * bytes_per_element(DType::f32);
    const int64_t of_piece = std::max<int64_t>(1, piece_bytes / of_sample);
    if (of_piece >= logits[0]) continue;
    const Classifier classifier(entry, n);
    if (!classifier.can_be_split()) continue;
    Splitting(program, entry, classifier).run(logits[0], of_piece);
    return;
  }
}

}  // namespace

Pass fuse_classifier(int64_t piece_bytes) {
  auto run = [piece_bytes](Program& program) {
    for (Entry& entry : program.entries) split_in(program, entry, piece_bytes);
  };
  return {.name = "fuse_classifier",
          .help = "make many logits for some samples at a time, and at once their loss and gradients",
          .optional = true,
          .run = run,
          .after = {"autodiff", "fuse_residual", "fuse_relu", "fuse_gradient_sum"}};
}

std::optional<Pass> fuse_classifier_pass(const PassSettings&) {
  constexpr int64_t kPieceBytes = int64_t{128} << 20;
  return fuse_classifier(kPieceBytes);
}

}  // namespace trainer
