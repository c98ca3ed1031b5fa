// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/gram_batch_norm.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/engine/planner.h"
#include "core/graph/builder.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/matmul.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/tokens.h"
#include "core/passes/entry_editor.h"
#include "core/passes/table.h"

namespace trainer {
namespace {

/// A convolution that multiplies each pixel by the same matrix.
bool is_product(const Conv2dGeometry& geometry) {
  return geometry.kernel == Extent2{1, 1} && geometry.stride == Extent2{1, 1} &&
         geometry.padding == Extent2{0, 0} && geometry.groups == 1;
}

/// A product with the normalisation behind it, and the gradients of both.
struct Normalised {
  Node conv, norm;
  Node of_norm, of_weights, of_data;  ///< gradients
  /// The product that makes one of the gradients that meet at the normalisation. It then makes their sum, and
  /// masks it where the normalisation has a relu.
  std::optional<Node> before;
  TensorId other = kNone;  ///< the gradient that it adds

  std::vector<TensorId> made() const {
    std::vector<TensorId> first{conv.outputs[0], norm.outputs[0], of_norm.outputs[0], of_weights.outputs[0],
                                of_data.outputs[0]};
    if (before) first.push_back(before->outputs[0]);
    return first;
  }
};

class GramBatchNorms {
 public:
  GramBatchNorms(Program& program, Entry& entry, const Planner& planner, int64_t least_saved)
      : program_(program), nodes_(entry), planner_(planner), least_saved_(least_saved) {}

  void run() {
    const size_t count = nodes_.size();
    for (size_t n = 0; n < count; ++n) {
      if (nodes_.is_removed(n) || dynamic_cast<const BatchNorm*>(nodes_.node(n).op.get()) == nullptr)
        continue;
      if (const std::optional<Normalised> found = find(nodes_.node(n))) rewrite(*found);
    }
    nodes_.finish();
  }

 private:
  /// The only node of that kind among the readers of a tensor, which are so many.
  template <class Op>
  const Node* reader_as(TensorId id, int readers) const {
    if (nodes_.uses(id) != readers) return nullptr;
    for (const size_t n : nodes_.readers(id)) {
      if (dynamic_cast<const Op*>(nodes_.node(n).op.get()) != nullptr) return &nodes_.node(n);
    }
    return nullptr;
  }
  template <class Op>
  const Node* maker_as(TensorId id) const {
    const int maker = nodes_.maker_of(id);
    if (maker == EntryEditor::kNobody) return nullptr;
    const Node& node = nodes_.node(maker);
    return dynamic_cast<const Op*>(node.op.get()) != nullptr ? &node : nullptr;
  }

  std::optional<Normalised> find(const Node& norm) const {
    constexpr size_t kInputsWithoutMoments = 4;  // nobody else measures
    const auto& op = static_cast<const BatchNorm&>(*norm.op);
    const Node* conv = maker_as<Conv2d>(norm.inputs[0]);
    if (norm.inputs.size() > kInputsWithoutMoments || std::isfinite(op.ceiling) || conv == nullptr) return {};
    const auto& convolution = static_cast<const Conv2d&>(*conv->op);
    if (!is_product(convolution.geometry) || convolution.relu || convolution.moments ||
        conv->inputs[2] != kNone || !is_worthwhile(*conv))
      return {};
    const Node* of_norm = reader_as<BatchNormBackward>(conv->outputs[0], 2);
    if (of_norm == nullptr) return {};
    const TensorId dy = of_norm->outputs[0];
    const Node* of_weights = reader_as<Conv2dBackwardWeights>(dy, 2);
    const Node* of_data = reader_as<Conv2dBackwardData>(dy, 2);
    if (of_weights == nullptr || of_data == nullptr) return {};
    Normalised found{*conv, norm, *of_norm, *of_weights, *of_data, {}, {}};
    const bool has_sum = of_norm->inputs[6] != kNone || op.relu || norm.inputs[3] != kNone;
    if (has_sum && !find_before(found)) return {};
    return found;
  }

  /// What lies between product and normalisation is neither written and read in each direction nor read twice
  /// for sums: seven times its bytes. In return the product's input is read twice more and its gradient
  /// written and read once more, matrices of channels and features, f32 and low, are read and written some
  /// eleven times, and arithmetic grows by two products of features.
  bool is_worthwhile(const Node& conv) const {
    constexpr int64_t kBytesOfWeight = 44;
    const TensorSpec &x = program_.spec(conv.inputs[0]), &y = program_.spec(conv.outputs[0]);
    const int64_t features = x.shape[1], channels = y.shape[1];
    const int64_t walks = rows_of(y.shape) * (7 * channels - 4 * features) * planner_.element_bytes(x.dtype);
    return channels >= 2 * features && walks - kBytesOfWeight * channels * features >= least_saved_;
  }

  /// Of two gradients that meet at the normalisation one may come from a product.
  bool find_before(Normalised& found) const {
    for (const auto& [gradient, other] : {std::pair{0, 6}, std::pair{6, 0}}) {
      const TensorId id = found.of_norm.inputs[gradient];
      const Node* product = maker_as<Conv2dBackwardData>(id);
      if (product == nullptr || !is_product(static_cast<const Conv2dBackwardData&>(*product->op).geometry) ||
          nodes_.uses(id) != 1)
        continue;
      found.before = *product;
      found.other = found.of_norm.inputs[other];
      return true;
    }
    return false;
  }

  /// Writes what takes the place of all those, unless the device's planner refuses any of it.
  void rewrite(const Normalised& old) {
    const size_t tensors = program_.tensors.size();
    Entry forward(""), backward("");
    const Shared shared = write_forward(old, forward);
    write_backward(old, shared, backward);
    if (are_possible(forward) && are_possible(backward)) {
      replace(old, forward, backward);
    } else {
      program_.tensors.resize(tensors);
    }
  }

  /// Tensors of the forward part that the gradients read.
  struct Shared {
    TensorId x, w, low_w, t, s, folded, mask = kNone;
  };

  Shared write_forward(const Normalised& old, Entry& entry) {
    const auto& op = static_cast<const BatchNorm&>(*old.norm.op);
    Builder build(program_, entry);
    build.set_origin(old.norm.origin);
    const Shape images = build.shape(old.norm.inputs[0]);
    const TensorSpec x_spec = program_.spec(old.conv.inputs[0]);
    Shared made{};
    made.x = build.emit<ImagesToTokens>({old.conv.inputs[0]});
    made.low_w = build.emit<Reshape>({old.conv.inputs[1]}, matrix(old));
    made.w = build.emit<Reshape>({wide_weights(old.conv)}, matrix(old));
    const std::vector<TensorId> gram =
        build.emit_all(std::make_shared<LinearBackwardWeights>(true), {made.x, made.x});
    made.s = gram[1];
    made.t = build.emit<MatMul>({made.w, gram[0]});
    const std::vector<TensorId> fold =
        build.emit_all(std::make_shared<GramBatchNorm>(op.eps, rows_of(images), x_spec.dtype),
                       {made.w, made.t, made.s, old.norm.inputs[1], old.norm.inputs[2]});
    give(entry, 2, old.norm.outputs[1]);
    give(entry, 3, old.norm.outputs[2]);
    made.folded = fold[0];
    const TensorId residual = old.norm.inputs[3];
    const std::vector<TensorId> y = build.emit_all(
        std::make_shared<Linear>(op.relu ? LinearFunction::relu_with_mask : LinearFunction::none),
        {made.x, fold[0], fold[1], residual == kNone ? kNone : build.emit<ImagesToTokens>({residual})});
    if (op.relu) made.mask = y[1];
    build.emit<TokensToImages>({y[0]}, Extent2{images[2], images[3]});
    give(entry, 0, old.norm.outputs[0]);
    return made;
  }

  void write_backward(const Normalised& old, const Shared& shared, Entry& entry) {
    const auto& op = static_cast<const BatchNorm&>(*old.norm.op);
    Builder build(program_, entry);
    build.set_origin(old.norm.origin);
    build.set_phase(Phase::backward);
    build.set_role(Role::gradient);
    const Shape images = build.shape(old.conv.inputs[0]);
    const TensorId g = write_gradient(old, shared.mask, build);
    const std::vector<TensorId> p =
        build.emit_all(std::make_shared<LinearBackwardWeights>(true), {shared.x, g});
    const TensorId dbeta = old.of_norm.outputs[2];
    give(entry, 1, dbeta);
    const DType low = program_.spec(old.conv.inputs[0]).dtype;
    const double scale = low == DType::f16 ? scale_of_means(rows_of(images)) : 1;
    const auto gradient = std::make_shared<GramBatchNormBackward>(op.eps, rows_of(images), low, scale);
    const std::vector<TensorId> of_norm =
        build.emit_all(gradient, {shared.w, shared.t, shared.s, p[0], dbeta, old.norm.inputs[1],
                                  old.norm.outputs[1], old.norm.outputs[2]});
    give(entry, 1, old.of_norm.outputs[1]);
    const TensorId d = build.emit<MatMul>({of_norm[2], shared.low_w}, true);
    const TensorId e =
        build.emit<Reshape>({build.emit<MatMul>({of_norm[3], shared.low_w})}, Shape{images[1]});
    const TensorId share = build.emit<Linear>({shared.x, d, e});
    const TensorId dx = build.emit<LinearBackwardData>({g, shared.folded, kNone, share},
                                                       build.shape(shared.x), false, false, 1 / scale);
    build.emit<TokensToImages>({dx}, Extent2{images[2], images[3]});
    give(entry, 0, old.of_data.outputs[0]);
    build.emit<Reshape>({of_norm[0]}, build.shape(old.conv.inputs[1]));
    give(entry, 0, old.of_weights.outputs[0]);
  }

  /// The gradient of what the normalisation puts out, as tokens: the sum of those that meet there, masked.
  TensorId write_gradient(const Normalised& old, TensorId mask, Builder& build) {
    if (!old.before) return build.emit<ImagesToTokens>({old.of_norm.inputs[0]});
    const Node& product = *old.before;
    const Shape w = build.shape(product.inputs[1]), images = build.shape(product.outputs[0]);
    const TensorId dy = build.emit<ImagesToTokens>({product.inputs[0]});
    const TensorId matrix = build.emit<Reshape>({product.inputs[1]}, Shape{w[0], w[1]});
    const TensorId other = old.other == kNone ? kNone : build.emit<ImagesToTokens>({old.other});
    const TensorId g = build.emit<LinearBackwardData>({dy, matrix, mask, other},
                                                      Shape{images[0], images[2] * images[3], images[1]});
    if (old.of_norm.outputs.size() > 3) {
      build.emit<TokensToImages>({g}, Extent2{images[2], images[3]});
      give(build.entry(), 0, old.of_norm.outputs[3]);
    }
    return g;
  }

  /// A mean of gradients over so many rows is about their size over the root of that: a power of two that
  /// makes up for it, less some room.
  static double scale_of_means(int64_t rows) {
    constexpr int kRoom = 2;
    return std::exp2(std::max(0, static_cast<int>(std::log2(static_cast<double>(rows)) / 2) - kRoom));
  }

  /// Lets the node written last make a tensor that was there before.
  static void give(Entry& entry, size_t output, TensorId id) { entry.nodes.back().outputs[output] = id; }

  /// As they are trained, before a cast.
  TensorId wide_weights(const Node& conv) const {
    const Node* cast = maker_as<Cast>(conv.inputs[1]);
    return cast == nullptr ? conv.inputs[1] : cast->inputs[0];
  }
  Shape matrix(const Normalised& old) const {
    const Shape& w = program_.spec(old.conv.inputs[1]).shape;
    return {w[0], w[1]};
  }
  static int64_t rows_of(const Shape& images) { return images[0] * images[2] * images[3]; }

  bool are_possible(const Entry& written) const {
    return std::ranges::all_of(written.nodes, [&](const Node& node) {
      const auto [inputs, outputs] = node_specs(program_, node);
      return node.op->is_view() || !planner_.why_not({.op = *node.op, .inputs = inputs, .outputs = outputs});
    });
  }

  void replace(const Normalised& old, Entry& forward, Entry& backward) {
    const int norm = nodes_.maker_of(old.norm.outputs[0]), of_norm = nodes_.maker_of(old.of_norm.outputs[0]);
    for (const TensorId made : old.made()) nodes_.remove(static_cast<size_t>(nodes_.maker_of(made)));
    for (Node& node : forward.nodes) nodes_.insert_before(static_cast<size_t>(norm), std::move(node));
    for (Node& node : backward.nodes) nodes_.insert_before(static_cast<size_t>(of_norm), std::move(node));
  }

  Program& program_;
  EntryEditor nodes_;
  const Planner& planner_;
  const int64_t least_saved_;
};

}  // namespace

Pass gram_batch_norm(const Planner& planner, int64_t least_saved) {
  auto run = [&planner, least_saved](Program& program) {
    GramBatchNorms(program, program.entry(entry_name::kTrainStep), planner, least_saved).run();
  };
  return {.name = "gram_batch_norm",
          .help =
              "normalise what a 1x1 convolution makes within its product, by moments that follow from its "
              "input, where the device can",
          .optional = true,
          .run = run,
          .after = {"autodiff", "sync_batch_norm"}};
}

std::optional<Pass> gram_batch_norm_pass(const PassOptions& options) {
  if (!options.trains || options.planner == nullptr) return std::nullopt;
  return gram_batch_norm(*options.planner, options.least_saved);
}

}  // namespace trainer
