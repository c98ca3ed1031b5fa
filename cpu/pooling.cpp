// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/pool2d.h"
#include "cpu/global_pool.h"
#include "cpu/max_pool.h"
#include "cpu/onednn.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

using dnnl::algorithm;
using Descriptor = dnnl::memory::desc;
using Forward = dnnl::pooling_forward;
using BackwardOp = dnnl::pooling_backward;

struct Problem {
  algorithm how;
  Shape x, y;
  DType dtype;
  Windows windows;

  Problem(algorithm a, const Conv2dGeometry& g, const TensorSpec& x_spec, const TensorSpec& y_spec)
      : how(a), x(x_spec.shape), y(y_spec.shape), dtype(x_spec.dtype) {
    windows.strides.assign(g.stride.begin(), g.stride.end());
    windows.kernel.assign(g.kernel.begin(), g.kernel.end());
    windows.padding.assign(g.padding.begin(), g.padding.end());
  }
  bool is_max() const { return how == algorithm::pooling_max; }
  Descriptor x_in(const Layout& layout) const { return to_descriptor(layout, x, dtype); }
  Descriptor y_in(const Layout& layout) const { return to_descriptor(layout, y, dtype); }
};

Forward::primitive_desc forward(const OneDnn& onednn, const Problem& p, const Descriptor& x,
                                const Descriptor& y) {
  return describe_pooling(onednn.engine, with_user_scratchpad(), dnnl::prop_kind::forward_training, p.how, x,
                          y, p.windows);
}

BackwardOp::primitive_desc backward(const OneDnn& onednn, const Problem& p, const Descriptor& x,
                                    const Descriptor& y) {
  return describe_pooling_backward(onednn.engine, with_user_scratchpad(), forward(onednn, p, x, y), p.how, x,
                                   y, p.windows);
}

template <class Op>
constexpr algorithm algorithm_of() {
  const bool is_max = std::is_same_v<Op, MaxPool2d> || std::is_same_v<Op, MaxPool2dBackward>;
  return is_max ? algorithm::pooling_max : algorithm::pooling_avg_include_padding;
}

Problem average_problem(const OpContext& c) {
  return {algorithm_of<AvgPool2d>(), static_cast<const AvgPool2d&>(c.op).geometry, c.inputs[AvgPool2d::kX],
          c.outputs[AvgPool2d::kY]};
}

Choice select_average(const OneDnn& onednn, const OpContext& c, const OpenLayouts& inputs) {
  const Problem p = average_problem(c);
  const Layout x = inputs[AvgPool2d::kX].value_or(Layout{});
  const auto found = forward(onednn, p, p.x_in(x), any_layout(p.y, p.dtype));
  Choice choice{
      .inputs = {x}, .outputs = {to_layout(found.dst_desc(), p.y)}, .implementation = "", .algorithm = ""};
  describe(choice, forward(onednn, p, p.x_in(x), p.y_in(choice.outputs[AvgPool2d::kY])));
  return choice;
}

std::unique_ptr<Kernel> compile_average(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                        const Choice& choice, const Slots& slots) {
  const Problem p = average_problem(c);
  const Descriptor x = p.x_in(choice.inputs[AvgPool2d::kX]), y = p.y_in(choice.outputs[AvgPool2d::kY]);
  const auto found = forward(*onednn, p, x, y);
  return primitive_kernel(onednn, Forward(found),
                          {{DNNL_ARG_SRC, x, slots.inputs[AvgPool2d::kX]},
                           {DNNL_ARG_DST, y, slots.outputs[AvgPool2d::kY]},
                           workspace_argument(found, choice, slots)});
}

template <class Op>
Problem backward_problem(const OpContext& c) {
  return {algorithm_of<Op>(), static_cast<const Op&>(c.op).geometry, c.outputs[Op::kDx], c.inputs[Op::kDy]};
}

/// Pooling gives its output the layout of its input, so the gradient of the input gets the layout that would
/// have produced y's. oneDNN requires it explicitly: its forward descriptor, the hint, accepts no open one.
Layout input_layout(const OneDnn& onednn, const Problem& p, const Layout& y) {
  using Tag = dnnl::memory::format_tag;
  for (const Tag candidate : {Tag::nChw16c, Tag::nChw8c, Tag::nhwc, Tag::nchw}) {
    const Descriptor x(p.x, to_onednn(p.dtype), candidate);
    const auto found = forward(onednn, p, x, any_layout(p.y, p.dtype));
    if (to_layout(found.dst_desc(), p.y) == y) return to_layout(x, p.x);
  }
  return Layout{};
}

/// The places were written in the layout that the forward pass gave its output; dy follows them.
template <class Op>
Choice select_backward(const OneDnn& onednn, const OpContext& c, const OpenLayouts& inputs) {
  const Problem p = backward_problem<Op>(c);
  const Layout y = inputs[p.is_max() ? 1 : 0].value_or(Layout{});
  const Layout x = input_layout(onednn, p, y);
  Choice choice{.inputs = {y}, .outputs = {x}};
  if (p.is_max()) choice.inputs.push_back(y);
  describe(choice, backward(onednn, p, p.x_in(x), p.y_in(y)));
  return choice;
}

template <class Op>
std::unique_ptr<Kernel> compile_backward(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                         const Choice& choice, const Slots& slots) {
  const Problem p = backward_problem<Op>(c);
  const Descriptor x = p.x_in(choice.outputs[Op::kDx]), y = p.y_in(choice.inputs[Op::kDy]);
  const auto found = backward(*onednn, p, x, y);
  std::vector<Argument> arguments{{DNNL_ARG_DIFF_DST, y, slots.inputs[Op::kDy]},
                                  {DNNL_ARG_DIFF_SRC, x, slots.outputs[Op::kDx]},
                                  workspace_argument(found, choice, slots)};
  if (p.is_max())
    arguments.push_back(
        {DNNL_ARG_WORKSPACE, found.workspace_desc(), slots.inputs[MaxPool2dBackward::kPlaces]});
  return primitive_kernel(onednn, BackwardOp(found), arguments);
}

/// Global pools have their own loops; all others are as before.
Handler with_global(const Handler& general, const Handler& global) {
  return {[=](const OpContext& c, const OpenLayouts& inputs) {
            return (is_global_pool(c) ? global : general).select(c, inputs);
          },
          [=](const OpContext& c, const Choice& choice, const Slots& slots) {
            return (is_global_pool(c) ? global : general).compile(c, choice, slots);
          },
          {}};
}

}  // namespace

void add_pooling(Handlers& handlers) {
  const auto onednn = std::make_shared<OneDnn>();
  handlers[typeid(MaxPool2d)] = {select_max_pool, compile_max_pool, {}};
  handlers[typeid(AvgPool2d)] = with_global(onednn_handler(onednn, select_average, compile_average),
                                            {select_global_pool, compile_global_pool, {}});
  handlers[typeid(MaxPool2dBackward)] =
      onednn_handler(onednn, select_backward<MaxPool2dBackward>, compile_backward<MaxPool2dBackward>);
  handlers[typeid(AvgPool2dBackward)] = with_global(
      onednn_handler(onednn, select_backward<AvgPool2dBackward>, compile_backward<AvgPool2dBackward>),
      {select_global_pool_backward, compile_global_pool_backward, {}});
}

}  // namespace trainer::cpu
