// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/gram_batch_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
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
  return geometry.kernel == Size2d{1, 1} && geometry.stride == Size2d{1, 1} &&
         geometry.padding == Size2d{0, 0} && geometry.groups == 1;
}

/// A product with the normalisation after it, and the gradients of both.
struct Normalised {
  Node conv, norm;
  Node of_norm, of_weights, of_data;  ///< gradients
  /// The product that makes one of the gradients that meet at the normalisation. It then makes their sum, and
  /// masks it if the normalisation has a relu.
  std::optional<Node> before;
  TensorId other = kNone;  ///< the gradient that it adds

  std::vector<TensorId> made() const {
    std::vector<TensorId> first{
        conv.outputs[Conv2d::kY], norm.outputs[BatchNorm::kY], of_norm.outputs[BatchNormBackward::kDx],
        of_weights.outputs[Conv2dBackwardWeights::kDweight], of_data.outputs[Conv2dBackwardData::kDx]};
    if (before) first.push_back(before->outputs[Conv2dBackwardData::kDx]);
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
    if (refused_ == 0) return;
    program_.remarks.push_back(fmt::format(
        "{} of {} batch normalisations are not computed within their products, which is slower: {}", refused_,
        found_, refusal_));
  }

 private:
  /// The only node of that kind among this number of readers of a tensor.
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
    const auto& op = static_cast<const BatchNorm&>(*norm.op);
    const Node* conv = maker_as<Conv2d>(norm.inputs[BatchNorm::kX]);
    if (is_measured(norm) || std::isfinite(op.ceiling) || conv == nullptr) return {};
    const auto& convolution = static_cast<const Conv2d&>(*conv->op);
    if (!is_product(convolution.geometry) || convolution.relu || convolution.moments ||
        conv->inputs[Conv2d::kBias] != kNone || !is_worthwhile(*conv))
      return {};
    const Node* of_norm = reader_as<BatchNormBackward>(conv->outputs[Conv2d::kY], 2);
    if (of_norm == nullptr) return {};
    const TensorId dy = of_norm->outputs[BatchNormBackward::kDx];
    const Node* of_weights = reader_as<Conv2dBackwardWeights>(dy, 2);
    const Node* of_data = reader_as<Conv2dBackwardData>(dy, 2);
    if (of_weights == nullptr || of_data == nullptr) return {};
    Normalised found{*conv, norm, *of_norm, *of_weights, *of_data, {}, {}};
    const bool has_sum = of_norm->inputs[BatchNormBackward::kOtherDy] != kNone || op.relu ||
                         norm.inputs[BatchNorm::kResidual] != kNone;
    if (has_sum && !find_before(found)) return {};
    return found;
  }

  /// The tensor between product and normalisation is neither written and read in each direction nor read
  /// twice for sums: this saves seven times its bytes. In return the product's input is read two more times,
  /// and its gradient is written and read one more time. Matrices of channels and features, f32 and low, are
  /// read and written some eleven times. Arithmetic grows by two products of features.
  bool is_worthwhile(const Node& conv) const {
    constexpr int64_t kBytesOfWeight = 44;
    const TensorSpec &x = program_.spec(conv.inputs[Conv2d::kX]),
                     &y = program_.spec(conv.outputs[Conv2d::kY]);
    const int64_t features = x.shape[1], channels = y.shape[1];
    const int64_t moved = rows_of(y.shape) * (7 * channels - 4 * features) * planner_.element_bytes(x.dtype);
    return channels >= 2 * features && moved - kBytesOfWeight * channels * features >= least_saved_;
  }

  /// Of two gradients that meet at the normalisation one may come from a product.
  bool find_before(Normalised& found) const {
    constexpr size_t kDy = BatchNormBackward::kDy, kOtherDy = BatchNormBackward::kOtherDy;
    for (const auto& [gradient, other] : {std::pair{kDy, kOtherDy}, std::pair{kOtherDy, kDy}}) {
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

  /// Writes the replacement of all these nodes, unless the device's planner refuses any of it.
  void rewrite(const Normalised& old) {
    const size_t tensors = program_.tensors.size();
    Entry forward(""), backward("");
    const Shared shared = write_forward(old, forward);
    write_backward(old, shared, backward);
    std::optional<std::string> refusal = why_not(forward);
    if (!refusal) refusal = why_not(backward);
    const bool is_meant = has_fold(forward);
    found_ += is_meant;
    if (!refusal) return replace(old, forward, backward);
    program_.tensors.resize(tensors);
    if (!is_meant) return;
    ++refused_;
    refusal_ = *refusal;
  }

  /// Tensors of the forward part that the gradients read.
  struct Shared {
    TensorId x, w, low_w, t, s, folded, mask = kNone;
  };

  Shared write_forward(const Normalised& old, Entry& entry) {
    const auto& op = static_cast<const BatchNorm&>(*old.norm.op);
    Builder build(program_, entry);
    build.set_origin(old.norm.origin);
    const Shape images = build.shape(old.norm.inputs[BatchNorm::kX]);
    const TensorSpec x_spec = program_.spec(old.conv.inputs[Conv2d::kX]);
    Shared made{};
    made.x = build.emit<ImagesToTokens>({old.conv.inputs[Conv2d::kX]});
    made.low_w = build.emit<Reshape>({old.conv.inputs[Conv2d::kWeight]}, matrix(old));
    made.w = build.emit<Reshape>({wide_weights(old.conv)}, matrix(old));
    const std::vector<TensorId> gram =
        build.emit_all(std::make_shared<LinearBackwardWeights>(true), {made.x, made.x});
    made.s = gram[LinearBackwardWeights::kDbias];
    made.t = build.emit<MatMul>({made.w, gram[LinearBackwardWeights::kDweight]});
    const std::vector<TensorId> fold = build.emit_all(
        std::make_shared<GramBatchNorm>(op.eps, rows_of(images), x_spec.dtype),
        {made.w, made.t, made.s, old.norm.inputs[BatchNorm::kGamma], old.norm.inputs[BatchNorm::kBeta]});
    give(entry, GramBatchNorm::kMean, old.norm.outputs[BatchNorm::kMean]);
    give(entry, GramBatchNorm::kVariance, old.norm.outputs[BatchNorm::kVariance]);
    made.folded = fold[GramBatchNorm::kFoldedWeight];
    const TensorId residual = old.norm.inputs[BatchNorm::kResidual];
    const std::vector<TensorId> y = build.emit_all(
        std::make_shared<Linear>(op.relu ? LinearFunction::relu_with_mask : LinearFunction::none),
        {made.x, made.folded, fold[GramBatchNorm::kFoldedBias],
         residual == kNone ? kNone : build.emit<ImagesToTokens>({residual})});
    if (op.relu) made.mask = y[Linear::kKept];
    build.emit<TokensToImages>({y[Linear::kY]}, Size2d{images[2], images[3]});
    give(entry, TokensToImages::kY, old.norm.outputs[BatchNorm::kY]);
    return made;
  }

  void write_backward(const Normalised& old, const Shared& shared, Entry& entry) {
    const auto& op = static_cast<const BatchNorm&>(*old.norm.op);
    Builder build(program_, entry);
    build.set_origin(old.norm.origin);
    build.set_phase(Phase::backward);
    build.set_role(Role::gradient);
    const Shape images = build.shape(old.conv.inputs[Conv2d::kX]);
    const TensorId g = write_gradient(old, shared.mask, build);
    const std::vector<TensorId> p =
        build.emit_all(std::make_shared<LinearBackwardWeights>(true), {shared.x, g});
    const TensorId dbeta = old.of_norm.outputs[BatchNormBackward::kDbeta];
    give(entry, LinearBackwardWeights::kDbias, dbeta);
    const DType low = program_.spec(old.conv.inputs[Conv2d::kX]).dtype;
    const double scale = low == DType::f16 ? scale_of_means(rows_of(images)) : 1;
    const auto gradient = std::make_shared<GramBatchNormBackward>(op.eps, rows_of(images), low, scale);
    const std::vector<TensorId> of_norm =
        build.emit_all(gradient, {shared.w, shared.t, shared.s, p[LinearBackwardWeights::kDweight], dbeta,
                                  old.norm.inputs[BatchNorm::kGamma], old.norm.outputs[BatchNorm::kMean],
                                  old.norm.outputs[BatchNorm::kVariance]});
    give(entry, GramBatchNormBackward::kDgamma, old.of_norm.outputs[BatchNormBackward::kDgamma]);
    const TensorId d = build.emit<MatMul>({of_norm[GramBatchNormBackward::kDataProduct], shared.low_w}, true);
    const TensorId e = build.emit<Reshape>(
        {build.emit<MatMul>({of_norm[GramBatchNormBackward::kDataSums], shared.low_w})}, Shape{images[1]});
    const TensorId share = build.emit<Linear>({shared.x, d, e});
    const TensorId dx = build.emit<LinearBackwardData>({g, shared.folded, kNone, share},
                                                       build.shape(shared.x), false, false, 1 / scale);
    build.emit<TokensToImages>({dx}, Size2d{images[2], images[3]});
    give(entry, TokensToImages::kY, old.of_data.outputs[Conv2dBackwardData::kDx]);
    build.emit<Reshape>({of_norm[GramBatchNormBackward::kDweight]},
                        build.shape(old.conv.inputs[Conv2d::kWeight]));
    give(entry, Reshape::kY, old.of_weights.outputs[Conv2dBackwardWeights::kDweight]);
  }

  /// The gradient of the normalisation's output, as tokens: the masked sum of the gradients that meet there.
  TensorId write_gradient(const Normalised& old, TensorId mask, Builder& build) {
    if (!old.before) return build.emit<ImagesToTokens>({old.of_norm.inputs[BatchNormBackward::kDy]});
    const Node& product = *old.before;
    const Shape w = build.shape(product.inputs[Conv2dBackwardData::kWeight]),
                images = build.shape(product.outputs[Conv2dBackwardData::kDx]);
    const TensorId dy = build.emit<ImagesToTokens>({product.inputs[Conv2dBackwardData::kDy]});
    const TensorId matrix =
        build.emit<Reshape>({product.inputs[Conv2dBackwardData::kWeight]}, Shape{w[0], w[1]});
    const TensorId other = old.other == kNone ? kNone : build.emit<ImagesToTokens>({old.other});
    const TensorId g = build.emit<LinearBackwardData>({dy, matrix, mask, other},
                                                      Shape{images[0], images[2] * images[3], images[1]});
    if (static_cast<const BatchNormBackward&>(*old.of_norm.op).residual) {
      build.emit<TokensToImages>({g}, Size2d{images[2], images[3]});
      give(build.entry(), TokensToImages::kY, old.of_norm.outputs[BatchNormBackward::kDresidual]);
    }
    return g;
  }

  /// A mean of gradients over this many rows is smaller by about the root of that: a power of two compensates
  /// for it, with some margin.
  static double scale_of_means(int64_t rows) {
    constexpr int kRoom = 2;
    return std::exp2(std::max(0, static_cast<int>(std::log2(static_cast<double>(rows)) / 2) - kRoom));
  }

  /// Makes an existing tensor the output of the last node.
  static void give(Entry& entry, size_t output, TensorId id) { entry.nodes.back().outputs[output] = id; }

  /// As trained, before a cast.
  TensorId wide_weights(const Node& conv) const {
    const Node* cast = maker_as<Cast>(conv.inputs[Conv2d::kWeight]);
    return cast == nullptr ? conv.inputs[Conv2d::kWeight] : cast->inputs[Cast::kX];
  }
  Shape matrix(const Normalised& old) const {
    const Shape& w = program_.spec(old.conv.inputs[Conv2d::kWeight]).shape;
    return {w[0], w[1]};
  }
  static int64_t rows_of(const Shape& images) { return images[0] * images[2] * images[3]; }

  /// Whether the device has the operation that this pass is for. If it has not, nothing is amiss.
  bool has_fold(const Entry& forward) const {
    return std::ranges::any_of(forward.nodes, [&](const Node& node) {
      return dynamic_cast<const GramBatchNorm*>(node.op.get()) != nullptr && !why_not(node);
    });
  }
  /// The planner's reason against a node.
  std::optional<std::string> why_not(const Node& node) const {
    const auto [inputs, outputs] = node_specs(program_, node);
    return planner_.why_not({.op = *node.op, .inputs = inputs, .outputs = outputs});
  }
  /// The planner's reason against the first of the nodes that it refuses; nothing if it takes all.
  std::optional<std::string> why_not(const Entry& written) const {
    for (const Node& node : written.nodes) {
      if (node.op->is_view()) continue;
      if (auto reason = why_not(node)) return reason;
    }
    return std::nullopt;
  }

  void replace(const Normalised& old, Entry& forward, Entry& backward) {
    const int norm = nodes_.maker_of(old.norm.outputs[BatchNorm::kY]),
              of_norm = nodes_.maker_of(old.of_norm.outputs[BatchNormBackward::kDx]);
    for (const TensorId made : old.made()) nodes_.remove(static_cast<size_t>(nodes_.maker_of(made)));
    for (Node& node : forward.nodes) nodes_.insert_before(static_cast<size_t>(norm), std::move(node));
    for (Node& node : backward.nodes) nodes_.insert_before(static_cast<size_t>(of_norm), std::move(node));
  }

  Program& program_;
  EntryEditor nodes_;
  const Planner& planner_;
  const int64_t least_saved_;
  int64_t found_ = 0, refused_ = 0;
  std::string refusal_;  ///< the last one's reason
};

}  // namespace

Pass gram_batch_norm(const Planner& planner, int64_t least_saved) {
  auto run = [&planner, least_saved](Program& program) {
    GramBatchNorms(program, program.entry(entry_name::kTrainStep), planner, least_saved).run();
  };
  return {.name = "gram_batch_norm",
          .help =
              "normalise a 1x1 convolution's output within its product, by moments that follow from its "
              "input, if the device can",
          .optional = true,
          .run = run,
          .after = {"autodiff", "sync_batch_norm"}};
}

std::optional<Pass> gram_batch_norm_pass(const PassSettings& settings) {
  if (!settings.trains || settings.planner == nullptr) return std::nullopt;
  return gram_batch_norm(*settings.planner, settings.least_saved);
}

}  // namespace trainer
