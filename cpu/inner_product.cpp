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

/// x (N, K), w (O, K), y (N, O), N counting all rows; activations row-major, so that (N, T, K) is such a
/// matrix as it lies; weights in whatever layout suits all three products. An image in a convolution's layout
/// is reordered first: taking it as it lies would end in a general matrix product with other weights for each
/// direction.
struct Problem {
  Shape x, w, y;
  DType dtype, w_dtype;  ///< of x and y; of w and the bias: the same, but f32 for their gradients
  bool bias = false, relu = false;

  Problem(const TensorSpec& of_x, int64_t outputs)
      : x(as_rows(of_x.shape)), w{outputs, x[1]}, y{x[0], outputs}, dtype(of_x.dtype), w_dtype(of_x.dtype) {}

  Descriptor plain_x() const { return to_descriptor(Layout{}, x, dtype); }
  Descriptor plain_y() const { return to_descriptor(Layout{}, y, dtype); }
  Descriptor plain_bias() const { return bias ? to_descriptor(Layout{}, {y[1]}, w_dtype) : Descriptor(); }
  Descriptor any_w() const { return any_layout(w, w_dtype); }
  Descriptor w_in(const Layout& layout) const { return to_descriptor(layout, w, w_dtype); }
};

Forward::primitive_desc forward(const OneDnn& onednn, const Problem& p, const Descriptor& w) {
  dnnl::primitive_attr attributes = with_user_scratchpad();
  if (p.relu) attributes.set_post_ops(relu_after());
  const auto kind = dnnl::prop_kind::forward_training;
  if (p.bias)
    return describe_primitive<Forward>(onednn.engine, attributes, kind, p.plain_x(), w, p.plain_bias(),
                                       p.plain_y());
  return describe_primitive<Forward>(onednn.engine, attributes, kind, p.plain_x(), w, p.plain_y());
}

Forward::primitive_desc forward_hint(const OneDnn& onednn, Problem p) {
  p.bias = p.relu = false;
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
  Problem p(c.inputs[0], c.outputs[0].shape.back());
  p.bias = !c.inputs[2].shape.empty();
  p.relu = static_cast<const Linear&>(c.op).relu;
  return p;
}

Choice select_forward(const OneDnn& onednn, const OpContext& c, const OpenLayouts& inputs) {
  const Problem p = forward_problem(c);
  const auto found = forward(onednn, p, p.any_w());
  Choice choice = select_row_major(c, inputs);
  choice.inputs[1] = to_layout(found.weights_desc(), p.w);
  describe(choice, forward(onednn, p, p.w_in(choice.inputs[1])));
  return choice;
}

std::unique_ptr<Kernel> compile_forward(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                        const Choice& choice, const Slots& slots) {
  const Problem p = forward_problem(c);
  const Descriptor w = p.w_in(choice.inputs[1]);
  const auto found = forward(*onednn, p, w);
  std::vector<Argument> arguments{{DNNL_ARG_SRC, p.plain_x(), slots.inputs[0]},
                                  {DNNL_ARG_WEIGHTS, w, slots.inputs[1]},
                                  {DNNL_ARG_DST, p.plain_y(), slots.outputs[0]},
                                  workspace_argument(found, choice, slots)};
  if (p.bias) arguments.push_back({DNNL_ARG_BIAS, p.plain_bias(), slots.inputs[2]});
  return primitive_kernel(onednn, Forward(found), arguments);
}

Problem backward_data_problem(const OpContext& c) {
  return {c.outputs[0], c.inputs[0].shape.back()};
}

Choice select_backward_data(const OneDnn& onednn, const OpContext& c, const OpenLayouts& inputs) {
  const Problem p = backward_data_problem(c);
  const auto found = backward_data(onednn, p, p.any_w());
  Choice choice = select_row_major(c, inputs);
  choice.inputs[1] = to_layout(found.weights_desc(), p.w);
  describe(choice, backward_data(onednn, p, p.w_in(choice.inputs[1])));
  return choice;
}

std::unique_ptr<Kernel> compile_backward_data(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                              const Choice& choice, const Slots& slots) {
  const Problem p = backward_data_problem(c);
  const Descriptor w = p.w_in(choice.inputs[1]);
  const auto found = backward_data(*onednn, p, w);
  return primitive_kernel(onednn, BackwardData(found),
                          {{DNNL_ARG_DIFF_DST, p.plain_y(), slots.inputs[0]},
                           {DNNL_ARG_WEIGHTS, w, slots.inputs[1]},
                           {DNNL_ARG_DIFF_SRC, p.plain_x(), slots.outputs[0]},
                           workspace_argument(found, choice, slots)});
}

Problem backward_weights_problem(const OpContext& c) {
  Problem p(c.inputs[0], c.inputs[1].shape.back());
  p.w_dtype = DType::f32;
  p.bias = static_cast<const LinearBackwardWeights&>(c.op).has_bias;
  return p;
}

Choice select_backward_weights(const OneDnn& onednn, const OpContext& c, const OpenLayouts& inputs) {
  const Problem p = backward_weights_problem(c);
  const auto found = backward_weights(onednn, p, p.any_w());
  Choice choice = select_row_major(c, inputs);
  choice.outputs[0] = to_layout(found.diff_weights_desc(), p.w);
  describe(choice, backward_weights(onednn, p, p.w_in(choice.outputs[0])));
  return choice;
}

std::unique_ptr<Kernel> compile_backward_weights(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                                 const Choice& choice, const Slots& slots) {
  const Problem p = backward_weights_problem(c);
  const Descriptor w = p.w_in(choice.outputs[0]);
  const auto found = backward_weights(*onednn, p, w);
  std::vector<Argument> arguments{{DNNL_ARG_SRC, p.plain_x(), slots.inputs[0]},
                                  {DNNL_ARG_DIFF_DST, p.plain_y(), slots.inputs[1]},
                                  {DNNL_ARG_DIFF_WEIGHTS, w, slots.outputs[0]},
                                  workspace_argument(found, choice, slots)};
  if (p.bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, p.plain_bias(), slots.outputs[1]});
  return primitive_kernel(onednn, BackwardWeights(found), arguments);
}

}  // namespace

void add_inner_product(Handlers& handlers) {
  const auto onednn = std::make_shared<OneDnn>();
  handlers[typeid(Linear)] = onednn_handler(onednn, select_forward, compile_forward);
  handlers[typeid(LinearBackwardData)] = onednn_handler(onednn, select_backward_data, compile_backward_data);
  handlers[typeid(LinearBackwardWeights)] =
      onednn_handler(onednn, select_backward_weights, compile_backward_weights);
}

}  // namespace trainer::cpu
