// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/linear.h"
#include "cpu/onednn.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

using Descriptor = dnnl::memory::desc;
using Forward = dnnl::inner_product_forward;
using BackwardData = dnnl::inner_product_backward_data;
using BackwardWeights = dnnl::inner_product_backward_weights;

/// The layout of a matrix of `shape` as that of its transpose.
Layout turned(const Layout& layout, const Shape& shape) {
  Layout turned = layout;
  if (layout.row_major()) {
    turned = {.dims = shape, .padded = shape, .strides = {shape[1], 1}, .block_sizes = {}, .block_dims = {}};
  }
  for (std::vector<int64_t>* pair : {&turned.dims, &turned.padded, &turned.strides}) {
    std::swap(pair->at(0), pair->at(1));
  }
  for (int64_t& dim : turned.block_dims) dim = 1 - dim;
  const bool row_major = turned.block_sizes.empty() &&
                         (turned.dims[0] == 1 || turned.strides[0] == turned.dims[1]) &&
                         (turned.dims[1] == 1 || turned.strides[1] == 1);
  return row_major ? Layout{} : turned;
}

/// x (N, K), w (O, K), y (N, O), N counting all rows. Activations are row-major, so that (N, T, K) is stored
/// as a matrix of this form. Weights have the layout that suits all three products; it makes no difference
/// between (O, K) and its transpose. An image in a convolution's layout is reordered first: taking it as it
/// is stored would end in a general matrix product with other weights for each direction.
struct Problem {
  Shape x, w, y;
  DType dtype, w_dtype;  ///< of x and y; of w and the bias: the same, but f32 for their gradients
  bool bias = false, added = false, relu = false;
  bool transposed;  ///< the tensor of weights is (K, O)

  Problem(const TensorSpec& of_x, int64_t outputs, bool turns)
      : x(as_rows(of_x.shape)),
        w{outputs, x[1]},
        y{x[0], outputs},
        dtype(of_x.dtype),
        w_dtype(of_x.dtype),
        transposed(turns) {}

  Descriptor plain_x() const { return to_descriptor(Layout{}, x, dtype); }
  Descriptor plain_y() const { return to_descriptor(Layout{}, y, dtype); }
  Descriptor plain_bias() const { return bias ? to_descriptor(Layout{}, {y[1]}, w_dtype) : Descriptor(); }
  Descriptor any_w() const { return any_layout(w, w_dtype); }
  Descriptor w_in(const Layout& layout) const {
    return to_descriptor(transposed ? turned(layout, {w[1], w[0]}) : layout, w, w_dtype);
  }
  /// Of the tensor of weights, from oneDNN's of w.
  Layout layout_of(const Descriptor& found) const {
    Layout layout = to_layout(found, w);
    if (!transposed) return layout;
    Layout of_tensor = turned(layout, w);
    return has_descriptor(of_tensor) ? of_tensor : Layout{};
  }
};

Forward::primitive_desc forward(const OneDnn& onednn, const Problem& p, const Descriptor& w) {
  dnnl::primitive_attr attributes = with_user_scratchpad();
  dnnl::post_ops post;
  if (p.added) post.append_sum();
  if (p.relu) append_relu(post);
  attributes.set_post_ops(post);
  const auto kind = dnnl::prop_kind::forward_training;
  if (p.bias)
    return describe_primitive<Forward>(onednn.engine, attributes, kind, p.plain_x(), w, p.plain_bias(),
                                       p.plain_y());
  return describe_primitive<Forward>(onednn.engine, attributes, kind, p.plain_x(), w, p.plain_y());
}

Forward::primitive_desc forward_hint(const OneDnn& onednn, Problem p) {
  p.bias = p.added = p.relu = false;
  p.w_dtype = p.dtype;
  return forward(onednn, p, p.any_w());
}

BackwardData::primitive_desc backward_data(const OneDnn& onednn, const Problem& p, const Descriptor& w) {
  return describe_backward<BackwardData>(onednn.engine, with_user_scratchpad(), forward_hint(onednn, p),
                                         p.plain_x(), w, p.plain_y());
}

BackwardWeights::primitive_desc backward_weights(const OneDnn& onednn, const Problem& p,
                                                 const Descriptor& w) {
  const auto hint = forward_hint(onednn, p);
  const auto describe_with = [&](const auto&... arguments) {
    return describe_backward<BackwardWeights>(onednn.engine, with_user_scratchpad(), hint, p.plain_x(), w,
                                              arguments...);
  };
  return p.bias ? describe_with(p.plain_bias(), p.plain_y()) : describe_with(p.plain_y());
}

Problem forward_problem(const OpContext& c) {
  const auto& op = static_cast<const Linear&>(c.op);
  Problem p(c.inputs[Linear::kX], c.outputs[Linear::kY].shape.back(), op.transposed);
  p.bias = c.has_input(Linear::kBias);
  p.added = c.has_input(Linear::kAdded);
  p.relu = op.function == LinearFunction::relu;
  return p;
}

/// Fewer rows do not repay a reorder of weights that an embedding reads as well, row by row.
constexpr int64_t kRowsWorthAReorder = 32;

Choice select_forward(const OneDnn& onednn, const OpContext& c, const OpenLayouts& inputs) {
  const Problem p = forward_problem(c);
  const auto found = forward(onednn, p, p.any_w());
  Choice choice = select_row_major(c, inputs);
  const bool as_it_lies =
      p.x[0] < kRowsWorthAReorder && inputs[Linear::kWeight] && inputs[Linear::kWeight]->row_major();
  if (!as_it_lies) choice.inputs[Linear::kWeight] = p.layout_of(found.weights_desc());
  describe(choice, forward(onednn, p, p.w_in(choice.inputs[Linear::kWeight])));
  return choice;
}

std::unique_ptr<Kernel> compile_forward(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                        const Choice& choice, const Slots& slots) {
  const Problem p = forward_problem(c);
  const Descriptor w = p.w_in(choice.inputs[Linear::kWeight]);
  const auto found = forward(*onednn, p, w);
  std::vector<Argument> arguments{{DNNL_ARG_SRC, p.plain_x(), slots.inputs[Linear::kX]},
                                  {DNNL_ARG_WEIGHTS, w, slots.inputs[Linear::kWeight]},
                                  {DNNL_ARG_DST, p.plain_y(), slots.outputs[Linear::kY]},
                                  workspace_argument(found, choice, slots)};
  if (p.bias) arguments.push_back({DNNL_ARG_BIAS, p.plain_bias(), slots.inputs[Linear::kBias]});
  auto product = primitive_kernel(onednn, Forward(found), arguments);
  if (!p.added) return product;
  return adding_kernel(std::move(product), stored_bytes(Layout{}, c.outputs[Linear::kY]),
                       slots.inputs[Linear::kAdded], slots.outputs[Linear::kY]);
}

Problem backward_data_problem(const OpContext& c) {
  return {c.outputs[LinearBackwardData::kDx], c.inputs[LinearBackwardData::kDy].shape.back(),
          static_cast<const LinearBackwardData&>(c.op).transposed};
}

Choice select_backward_data(const OneDnn& onednn, const OpContext& c, const OpenLayouts& inputs) {
  const Problem p = backward_data_problem(c);
  const auto found = backward_data(onednn, p, p.any_w());
  Choice choice = select_row_major(c, inputs);
  choice.inputs[LinearBackwardData::kWeight] = p.layout_of(found.weights_desc());
  describe(choice, backward_data(onednn, p, p.w_in(choice.inputs[LinearBackwardData::kWeight])));
  return choice;
}

std::unique_ptr<Kernel> compile_backward_data(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                              const Choice& choice, const Slots& slots) {
  const Problem p = backward_data_problem(c);
  const Descriptor w = p.w_in(choice.inputs[LinearBackwardData::kWeight]);
  const auto found = backward_data(*onednn, p, w);
  return primitive_kernel(onednn, BackwardData(found),
                          {{DNNL_ARG_DIFF_DST, p.plain_y(), slots.inputs[LinearBackwardData::kDy]},
                           {DNNL_ARG_WEIGHTS, w, slots.inputs[LinearBackwardData::kWeight]},
                           {DNNL_ARG_DIFF_SRC, p.plain_x(), slots.outputs[LinearBackwardData::kDx]},
                           workspace_argument(found, choice, slots)});
}

template <class Op>
std::optional<std::string> why_not_to_a_sum(const OpContext& c) {
  if (!c.has_input(Op::kAdded)) return std::nullopt;
  return "no product of the CPU adds to a sum";
}

/// They would need passes of their own anyway.
std::optional<std::string> why_not_forward(const OpContext& c) {
  const LinearFunction function = static_cast<const Linear&>(c.op).function;
  if (function == LinearFunction::gelu_tanh) return "no product of the CPU computes gelu_tanh";
  if (function == LinearFunction::relu_with_mask) return "no product of the CPU keeps a relu's mask";
  return std::nullopt;
}

std::optional<std::string> why_not_backward_data(const OpContext& c) {
  const auto& op = static_cast<const LinearBackwardData&>(c.op);
  if (op.gelu_tanh || c.has_input(op.kKept)) return "no product of the CPU computes a function's gradient";
  return why_not_to_a_sum<LinearBackwardData>(c);
}

Problem backward_weights_problem(const OpContext& c) {
  const auto& op = static_cast<const LinearBackwardWeights&>(c.op);
  Problem p(c.inputs[LinearBackwardWeights::kX], c.inputs[LinearBackwardWeights::kDy].shape.back(),
            op.transposed);
  p.w_dtype = DType::f32;
  p.bias = op.has_bias;
  return p;
}

Choice select_backward_weights(const OneDnn& onednn, const OpContext& c, const OpenLayouts& inputs) {
  const Problem p = backward_weights_problem(c);
  const auto found = backward_weights(onednn, p, p.any_w());
  Choice choice = select_row_major(c, inputs);
  choice.outputs[LinearBackwardWeights::kDweight] = p.layout_of(found.diff_weights_desc());
  describe(choice, backward_weights(onednn, p, p.w_in(choice.outputs[LinearBackwardWeights::kDweight])));
  return choice;
}

std::unique_ptr<Kernel> compile_backward_weights(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                                 const Choice& choice, const Slots& slots) {
  const Problem p = backward_weights_problem(c);
  const Descriptor w = p.w_in(choice.outputs[LinearBackwardWeights::kDweight]);
  const auto found = backward_weights(*onednn, p, w);
  std::vector<Argument> arguments{{DNNL_ARG_SRC, p.plain_x(), slots.inputs[LinearBackwardWeights::kX]},
                                  {DNNL_ARG_DIFF_DST, p.plain_y(), slots.inputs[LinearBackwardWeights::kDy]},
                                  {DNNL_ARG_DIFF_WEIGHTS, w, slots.outputs[LinearBackwardWeights::kDweight]},
                                  workspace_argument(found, choice, slots)};
  if (p.bias)
    arguments.push_back({DNNL_ARG_DIFF_BIAS, p.plain_bias(), slots.outputs[LinearBackwardWeights::kDbias]});
  return primitive_kernel(onednn, BackwardWeights(found), arguments);
}

}  // namespace

void add_inner_product(Handlers& handlers) {
  const auto onednn = std::make_shared<OneDnn>();
  Handler &forward = handlers[typeid(Linear)], &data = handlers[typeid(LinearBackwardData)];
  forward = onednn_handler(onednn, select_forward, compile_forward);
  forward.why_not = why_not_forward;
  data = onednn_handler(onednn, select_backward_data, compile_backward_data);
  data.why_not = why_not_backward_data;
  Handler& weights = handlers[typeid(LinearBackwardWeights)];
  weights = onednn_handler(onednn, select_backward_weights, compile_backward_weights);
  weights.why_not = why_not_to_a_sum<LinearBackwardWeights>;
}

}  // namespace trainer::cpu
