// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/builder.h"
#include "core/graph/operation.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/embedding.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/own_part.h"
#include "core/graph/ops/positions.h"
#include "core/step/stages.h"
#include "core/step/tensor_cuts.h"

namespace trainer {
namespace {

/// Rewrites an entry. A tensor is whole on every rank, or cut by features, or each rank has a part of its
/// sum, or its rows are cut (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
/// Models", 2022): sums become rows at once, and rows become wholes where an operation needs that.
class Sharing {
 public:
  Sharing(Program& program, Entry& entry, const TensorCuts& cuts, int64_t ranks)
      : program_(program), build_(program, entry), cuts_(cuts), along_{Axis::tensor, ranks} {}

  void run() {
    const std::vector<Node> nodes = std::exchange(build_.entry().nodes, {});
    for (const Node& node : nodes) {
      for (const TensorId id : node.inputs) readers_[id].push_back(&node);
    }
    for (const Node& node : nodes) {
      build_.set_origin(node.origin);
      build_.set_phase(node.phase);
      share(node);
    }
    std::vector<NamedTensor>& outputs = build_.entry().outputs;
    std::erase_if(outputs, [&](const NamedTensor& each) { return cuts_.features.contains(each.tensor); });
    for (NamedTensor& output : outputs) output.tensor = whole(output.tensor);
  }

 private:
  using Cached = std::map<TensorId, TensorId>;

  void share(Node node) {
    if (dynamic_cast<const Linear*>(node.op.get()) != nullptr && cuts_.has(node.inputs[Linear::kWeight]))
      return share_product(std::move(node));
    if (dynamic_cast<const Embedding*>(node.op.get()) != nullptr && cuts_.has(node.inputs[Embedding::kTable]))
      return share_table(std::move(node));
    if (is_sum(node.inputs.empty() ? kNone : node.inputs[0])) return add_positions(std::move(node));
    if (std::ranges::any_of(node.inputs, [&](TensorId id) { return cuts_.features.contains(id); }))
      return share_features(std::move(node));
    if (is_by_rows(node)) return share_rows(std::move(node));
    for (TensorId& id : node.inputs) id = whole(id);
    append(std::move(node));
  }

  void share_product(Node node) {
    TensorId& x = node.inputs[Linear::kX];
    if (cuts_.features.contains(node.outputs[Linear::kY])) {
      x = for_shared_work(x);
      return append(std::move(node));
    }
    node.inputs[Linear::kBias] = on_first_rank(node.inputs[Linear::kBias]);
    append_sum(std::move(node));
  }

  void share_table(Node node) {
    node.op = std::make_shared<Embedding>(along_);
    const TensorId y = node.outputs[Embedding::kY];
    const auto adds_positions = [](const Node* reader) {
      return dynamic_cast<const AddPositions*>(reader->op.get()) != nullptr;
    };
    if (!std::ranges::all_of(readers_[y], adds_positions)) return append_sum(std::move(node));
    sums_.push_back(y);
    append(std::move(node));
  }

  bool is_sum(TensorId id) const { return std::ranges::find(sums_, id) != sums_.end(); }

  void add_positions(Node node) {
    node.inputs[position_input::kTable] = on_first_rank(node.inputs[position_input::kTable]);
    append_sum(std::move(node));
  }

  void share_features(Node node) {
    const auto cut = node.op->feature_cut(specs_of(program_.tensors, node.inputs));
    const TensorId of = cut->ends ? node.inputs[cut->inputs.front()] : node.outputs[0];
    const SharedPart part{.along = along_, .whole = original(of), .sections = cuts_.features.at(of)};
    for (TensorId& id : node.inputs) {
      if (!cuts_.features.contains(id)) id = whole(id);
    }
    if (auto own = node.op->on_part(part)) node.op = std::move(own);
    append(std::move(node));
  }

  /// Whether it has rows, and computes each row of its output from those of its inputs.
  bool is_by_rows(const Node& node) const {
    const std::vector<size_t> by_rows = node.op->row_inputs(specs_of(program_.tensors, node.inputs));
    const auto reads_rows = [&](size_t i) { return rows_.contains(node.inputs[i]); };
    if (!std::ranges::any_of(by_rows, reads_rows)) return false;
    const auto is_read = [&](TensorId id) { return id != kNone && readers_.contains(id); };
    return std::none_of(node.outputs.begin() + 1, node.outputs.end(), is_read);
  }

  void share_rows(Node node) {
    const std::vector<size_t> by_rows = node.op->row_inputs(specs_of(program_.tensors, node.inputs));
    const TensorId y = node.outputs[0];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TensorId& id = node.inputs[i];
      if (std::ranges::find(by_rows, i) != by_rows.end()) {
        id = rows(id);
      } else {
        id = is_trained(id) ? for_shared_work(id) : whole(id);
      }
    }
    const SharedPart part{
        .along = along_, .whole = original(y), .sections = {}, .rows = row_shape(original(y))[0]};
    if (auto own = node.op->on_part(part)) node.op = std::move(own);
    append(std::move(node));
    rows_[y] = y;
  }

  bool is_trained(TensorId id) const {
    return id != kNone && is_floating(program_.spec(id).dtype) &&
           program_.tensor(id).role != Role::constant && !is_from_outside(program_.tensor(id).role);
  }

  /// Appends a node whose first output is a part of a sum over the ranks.
  void append_sum(Node node) {
    const TensorId y = node.outputs[0];
    append(std::move(node));
    rows_[y] = build_.emit<ReduceScatter>({y}, along_, row_shape(original(y)));
  }

  /// Appends a node, whose outputs get the shapes that its inputs now give.
  void append(Node node) {
    const std::vector<TensorSpec> outputs = node.op->infer(specs_of(program_.tensors, node.inputs));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      Tensor& tensor = program_.tensors[static_cast<size_t>(node.outputs[i])];
      originals_.emplace(node.outputs[i], tensor.spec.shape);
      tensor.spec = outputs[i];
    }
    build_.entry().nodes.push_back(std::move(node));
  }

  /// The shape that it had before it was cut.
  Shape original(TensorId id) const {
    const auto known = originals_.find(id);
    return known == originals_.end() ? program_.spec(id).shape : known->second;
  }

  Shape row_shape(const Shape& whole) const {
    const int64_t count = numel(whole) / whole.back();
    return {(count + along_.ranks - 1) / along_.ranks, whole.back()};
  }

  template <class Make>
  static TensorId cached(Cached& cache, TensorId id, const Make& make) {
    if (id == kNone) return kNone;
    if (const auto known = cache.find(id); known != cache.end()) return known->second;
    const TensorId made = make();
    cache[id] = made;
    return made;
  }

  /// For an operation that every rank does.
  TensorId whole(TensorId id) {
    const auto of = rows_.find(id);
    if (of == rows_.end()) return id;
    return cached(wholes_, id,
                  [&] { return build_.emit<AllGather>({of->second}, along_, original(id), Work::repeated); });
  }

  /// For operations of which each rank does a part.
  TensorId for_shared_work(TensorId id) {
    return cached(shared_, id, [&] {
      const auto of = rows_.find(id);
      return of == rows_.end() ? build_.emit<SharedWork>({id}, along_)
                               : build_.emit<AllGather>({of->second}, along_, original(id), Work::shared);
    });
  }

  TensorId rows(TensorId id) {
    return cached(rows_, id, [&] { return build_.emit<OwnPart>({id}, along_, row_shape(original(id))); });
  }

  TensorId on_first_rank(TensorId id) {
    return cached(on_first_, id, [&] { return build_.emit<OnFirstRank>({id}, along_); });
  }

  Program& program_;
  Builder build_;
  const TensorCuts& cuts_;
  Along along_;
  std::map<TensorId, std::vector<const Node*>> readers_;
  std::vector<TensorId> sums_;  ///< parts of sums that are not yet rows
  std::map<TensorId, Shape> originals_;
  Cached rows_, wholes_, shared_, on_first_;
};

void require_cuts(const TensorCuts& cuts, int64_t ranks, const Origin& origin) {
  if (!cuts.parameters.empty()) return;
  if (cuts.uneven) {
    fail_at(origin,
            fmt::format("{} ranks cannot share the {} features of {} evenly, nor anything else in this "
                        "network; choose a divisor of them, or use parallelism.shard_parameters",
                        ranks, cuts.uneven->features, cuts.uneven->layer));
  }
  fail_at(
      origin,
      "the ranks can share nothing in this network: no linear layer follows another with only attention or "
      "element-wise functions between them, and no loss reads a linear layer alone; use "
      "parallelism.shard_parameters instead");
}

double flops_of(const Program& program, const Entry& entry) {
  double sum = 0;
  for (const Node& node : entry.nodes) {
    const auto [inputs, outputs] = node_specs(program, node);
    sum += node.op->flops(inputs, outputs);
  }
  return sum;
}

/// The layers with products that every rank computes as a whole.
std::vector<std::string> repeated_products(const Entry& entry, const TensorCuts& cuts) {
  std::vector<std::string> found;
  for (const Node& node : entry.nodes) {
    if (dynamic_cast<const Linear*>(node.op.get()) != nullptr && !cuts.has(node.inputs[Linear::kWeight]))
      found.push_back(node.origin.path);
  }
  return found;
}

/// The share of the forward part that every rank repeats. If it is f, and the rest is shared, each rank
/// computes (1 - f) / ranks + f of all.
double repeated_share(double whole, double own, double ranks) {
  return whole > 0 ? std::max(0.0, (ranks * own / whole - 1) / (ranks - 1)) : 0;
}

}  // namespace

Pass tensor_parallel(const Mesh& mesh, const Origin& origin) {
  auto run = [mesh, origin](Program& program) {
    const TensorCuts cuts = find_tensor_cuts(program, mesh.tensor);
    require_cuts(cuts, mesh.tensor, origin);
    const Entry& step = program.entries.front();
    const double whole = flops_of(program, step);
    const std::vector<std::string> products = repeated_products(step, cuts);
    for (const auto& [id, sections] : cuts.parameters) {
      Tensor& tensor = program.tensors[static_cast<size_t>(id)];
      tensor.part = Part{.whole = tensor.spec.shape, .mesh = mesh, .sections = sections};
      tensor.spec.shape = tensor.part->shape();
    }
    for (Entry& entry : program.entries) Sharing(program, entry, cuts, mesh.tensor).run();
    program.repeated =
        repeated_share(whole, flops_of(program, program.entries.front()), static_cast<double>(mesh.tensor));
    constexpr double kNoticed = 0.1;
    if (program.repeated < kNoticed) return;
    program.remarks.push_back(fmt::format(
        "parallelism.tensor: {:.0f} % of the forward part is computed by every rank as a whole{}; "
        "parallelism.data or shard_parameters would use the ranks better",
        100 * program.repeated,
        products.empty() ? std::string() : fmt::format(", {} among others", products.front())));
  };
  return {.name = "tensor_parallel",
          .help = "share operations among ranks, by features and by rows (parallelism.tensor)",
          .optional = false,
          .run = run,
          .after = {"loss"}};
}

}  // namespace trainer
