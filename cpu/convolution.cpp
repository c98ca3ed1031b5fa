// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/conv2d.h"

#include "cpu/algorithm_choice.h"
#include "cpu/onednn.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

using dnnl::algorithm;
using Descriptor = dnnl::memory::desc;

/// The tensors of a convolution and its geometry in oneDNN's terms.
struct Problem {
  Shape x, w, y;  // weights of a grouped convolution have five dimensions: (groups, O / groups, …)
  dnnl::memory::dims strides, dilations, padding;
  DType dtype;    ///< of x and y
  DType w_dtype;  ///< of w and the bias: that of x, but f32 for their gradients
  bool bias = false, residual = false, relu = false;

  Problem(const Conv2dGeometry& g, const TensorSpec& x_spec, const TensorSpec& w_spec, Shape y_shape)
      : x(x_spec.shape), w(w_spec.shape), y(std::move(y_shape)), dtype(x_spec.dtype), w_dtype(w_spec.dtype) {
    if (g.groups > 1) {
      w.insert(w.begin(), g.groups);
      w[1] /= g.groups;
    }
    strides.assign(g.stride.begin(), g.stride.end());
    padding.assign(g.padding.begin(), g.padding.end());
    dilations = {g.dilation[0] - 1, g.dilation[1] - 1};
  }

  /// F(4x4, 3x3) exists for 3x3 kernels at stride 1. To win it needs full vectors of channels, and tiles that
  /// repay the work on the weights.
  bool suits_winograd() const {
    constexpr int64_t kVector = 16, kTile = 4;
    const int64_t tiles = y[0] * ((y[2] + kTile - 1) / kTile) * ((y[3] + kTile - 1) / kTile);
    return tiles >= kFewestTiles && dtype == DType::f32 && w.size() == 4 && w[2] == 3 && w[3] == 3 &&
           strides == dnnl::memory::dims{1, 1} && dilations == dnnl::memory::dims{0, 0} && x[1] >= kVector &&
           y[1] >= kVector;
  }
};

/// (N, C, H, W) with the channels densest.
Descriptor channels_last(const Shape& shape, DType dtype) {
  return {shape, to_onednn(dtype), dnnl::memory::format_tag::nhwc};
}

/// Layouts left open except for those of an algorithm, or those of a choice already made.
struct Descriptors {
  Descriptor x, w, y, bias;

  Descriptors(const Problem& p, const std::string& how)
      : x(how == kChannelsLast ? channels_last(p.x, p.dtype) : any_layout(p.x, p.dtype)),
        w(any_layout(p.w, p.w_dtype)),
        y(how == kChannelsLast ? channels_last(p.y, p.dtype) : any_layout(p.y, p.dtype)) {
    set_bias(p);
  }
  Descriptors(const Problem& p, const Layout& x_layout, const Layout& w_layout, const Layout& y_layout)
      : x(to_descriptor(x_layout, p.x, p.dtype)),
        w(to_descriptor(w_layout, p.w, p.w_dtype)),
        y(to_descriptor(y_layout, p.y, p.dtype)) {
    set_bias(p);
  }
  void set_bias(const Problem& p) {
    if (p.bias) bias = to_descriptor(Layout{}, {p.y[1]}, p.w_dtype);
  }
};

algorithm algorithm_named(const std::string& name) {
  return name == kWinograd ? algorithm::convolution_winograd : algorithm::convolution_direct;
}

using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

Forward::primitive_desc forward(const OneDnn& onednn, const Problem& p, const Descriptors& d, algorithm how) {
  dnnl::primitive_attr attributes = with_user_scratchpad();
  dnnl::post_ops post;
  if (p.residual) post.append_sum();
  if (p.relu) append_relu(post);
  attributes.set_post_ops(post);
  const auto describe_with = [&](const auto&... tensors) {
    return describe_primitive<Forward>(onednn.engine, attributes, dnnl::prop_kind::forward_training, how,
                                       tensors..., p.strides, p.dilations, p.padding, p.padding);
  };
  return p.bias ? describe_with(d.x, d.w, d.bias, d.y) : describe_with(d.x, d.w, d.y);
}

/// The gradients' descriptors need the forward one as a hint; any that exists will do.
Forward::primitive_desc forward_hint(const OneDnn& onednn, Problem p) {
  p.bias = p.residual = p.relu = false;
  p.w_dtype = p.dtype;
  return forward(onednn, p, Descriptors(p, kDirect), algorithm::convolution_direct);
}

BackwardData::primitive_desc backward_data(const OneDnn& onednn, const Problem& p, const Descriptors& d,
                                           algorithm how) {
  return describe_backward<BackwardData>(onednn.engine, with_user_scratchpad(), forward_hint(onednn, p), how,
                                         d.x, d.w, d.y, p.strides, p.dilations, p.padding, p.padding);
}

BackwardWeights::primitive_desc backward_weights(const OneDnn& onednn, const Problem& p, const Descriptors& d,
                                                 algorithm how) {
  const auto hint = forward_hint(onednn, p);
  const auto describe_with = [&](const auto&... tensors) {
    return describe_backward<BackwardWeights>(onednn.engine, with_user_scratchpad(), hint, how, tensors...,
                                              p.strides, p.dilations, p.padding, p.padding);
  };
  return p.bias ? describe_with(d.x, d.w, d.bias, d.y) : describe_with(d.x, d.w, d.y);
}

Problem forward_problem(const OpContext& c) {
  const auto& op = static_cast<const Conv2d&>(c.op);
  Problem p(op.geometry, c.inputs[Conv2d::kX], c.inputs[Conv2d::kWeight], c.outputs[Conv2d::kY].shape);
  p.bias = c.has_input(Conv2d::kBias);
  p.residual = c.has_input(Conv2d::kResidual);
  p.relu = op.relu;
  return p;
}

Choice select_forward(const AlgorithmChoice& algorithms, const OpContext& c) {
  const OneDnn& onednn = algorithms.onednn();
  const Problem p = forward_problem(c);
  Choice choice;
  const auto found = algorithms.best<Forward>(c, p.suits_winograd(), choice, [&](const std::string& how) {
    return forward(onednn, p, Descriptors(p, how), algorithm_named(how));
  });
  if (!found) return select_own_winograd(c);
  choice.inputs = {to_layout(found->src_desc(), p.x), to_layout(found->weights_desc(), p.w)};
  choice.inputs.resize(c.inputs.size());
  choice.outputs = {to_layout(found->dst_desc(), p.y)};
  if (p.residual) choice.inputs[Conv2d::kResidual] = choice.outputs[Conv2d::kY];
  const Descriptors d(p, choice.inputs[Conv2d::kX], choice.inputs[Conv2d::kWeight],
                      choice.outputs[Conv2d::kY]);
  describe(choice, forward(onednn, p, d, algorithm_named(choice.algorithm)));
  return choice;
}

std::unique_ptr<Kernel> compile_forward(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                        const Choice& choice, const Slots& slots) {
  const Problem p = forward_problem(c);
  const Descriptors d(p, choice.inputs[Conv2d::kX], choice.inputs[Conv2d::kWeight],
                      choice.outputs[Conv2d::kY]);
  const auto found = forward(*onednn, p, d, algorithm_named(choice.algorithm));
  std::vector<Argument> arguments{{DNNL_ARG_SRC, d.x, slots.inputs[Conv2d::kX]},
                                  {DNNL_ARG_WEIGHTS, d.w, slots.inputs[Conv2d::kWeight]},
                                  {DNNL_ARG_DST, d.y, slots.outputs[Conv2d::kY]},
                                  workspace_argument(found, choice, slots)};
  if (p.bias) arguments.push_back({DNNL_ARG_BIAS, d.bias, slots.inputs[Conv2d::kBias]});
  auto convolution = primitive_kernel(onednn, Forward(found), arguments);
  if (!p.residual) return convolution;
  return adding_kernel(std::move(convolution),
                       stored_bytes(choice.outputs[Conv2d::kY], c.outputs[Conv2d::kY]),
                       slots.inputs[Conv2d::kResidual], slots.outputs[Conv2d::kY]);
}

/// Whether it is code without vectors, which oneDNN has for every case.
bool is_reference(const Choice& choice) {
  return choice.implementation.starts_with("ref");
}

Problem backward_data_problem(const OpContext& c) {
  const auto& op = static_cast<const Conv2dBackwardData&>(c.op);
  return {op.geometry, c.outputs[Conv2dBackwardData::kDx], c.inputs[Conv2dBackwardData::kWeight],
          c.inputs[Conv2dBackwardData::kDy].shape};
}

Choice select_backward_data(const AlgorithmChoice& algorithms, const OpContext& c) {
  const OneDnn& onednn = algorithms.onednn();
  const Problem p = backward_data_problem(c);
  Choice choice;
  const auto found =
      algorithms.best<BackwardData>(c, p.suits_winograd(), choice, [&](const std::string& how) {
        return backward_data(onednn, p, Descriptors(p, how), algorithm_named(how));
      });
  if (!found) return select_own_winograd(c);
  const auto take = [&](const BackwardData::primitive_desc& best) {
    choice.inputs = {to_layout(best.diff_dst_desc(), p.y), to_layout(best.weights_desc(), p.w)};
    choice.outputs = {to_layout(best.diff_src_desc(), p.x)};
    const Descriptors d(p, choice.outputs[Conv2dBackwardData::kDx],
                        choice.inputs[Conv2dBackwardData::kWeight], choice.inputs[Conv2dBackwardData::kDy]);
    describe(choice, backward_data(onednn, p, d, algorithm_named(choice.algorithm)));
    return !is_reference(choice);
  };
  if (take(*found)) return choice;
  // oneDNN 3.7 chooses layouts for a kernel at stride 2 that it rejects when they are passed to it.
  for (const auto tag : {dnnl::memory::format_tag::nChw16c, dnnl::memory::format_tag::nChw8c}) {
    Descriptors blocked(p, kDirect);
    blocked.x = Descriptor(p.x, to_onednn(p.dtype), tag);
    blocked.y = Descriptor(p.y, to_onednn(p.dtype), tag);
    try {
      if (take(backward_data(onednn, p, blocked, algorithm::convolution_direct))) return choice;
    } catch (const dnnl::error&) {  // none with this layout
    }
  }
  take(*found);
  return choice;
}

std::unique_ptr<Kernel> compile_backward_data(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                              const Choice& choice, const Slots& slots) {
  const Problem p = backward_data_problem(c);
  const Descriptors d(p, choice.outputs[Conv2dBackwardData::kDx], choice.inputs[Conv2dBackwardData::kWeight],
                      choice.inputs[Conv2dBackwardData::kDy]);
  const auto found = backward_data(*onednn, p, d, algorithm_named(choice.algorithm));
  return primitive_kernel(onednn, BackwardData(found),
                          {{DNNL_ARG_DIFF_DST, d.y, slots.inputs[Conv2dBackwardData::kDy]},
                           {DNNL_ARG_WEIGHTS, d.w, slots.inputs[Conv2dBackwardData::kWeight]},
                           {DNNL_ARG_DIFF_SRC, d.x, slots.outputs[Conv2dBackwardData::kDx]},
                           workspace_argument(found, choice, slots)});
}

Problem backward_weights_problem(const OpContext& c) {
  const auto& op = static_cast<const Conv2dBackwardWeights&>(c.op);
  Problem p(op.geometry, c.inputs[Conv2dBackwardWeights::kX], {op.w_shape, DType::f32},
            c.inputs[Conv2dBackwardWeights::kDy].shape);
  p.bias = op.has_bias;
  return p;
}

std::optional<std::string> why_not_backward_weights(const OpContext& c) {
  if (static_cast<const Conv2dBackwardWeights&>(c.op).dtype == DType::f32) return std::nullopt;
  return "oneDNN gives gradients of weights in f32 itself";
}

/// oneDNN cannot compute these sums after a convolution, so batch normalisation has a pass of its own.
std::optional<std::string> why_not_forward(const OpContext& c) {
  if (!static_cast<const Conv2d&>(c.op).moments) return std::nullopt;
  return "no convolution of the CPU measures its output";
}

Choice select_backward_weights(const AlgorithmChoice& algorithms, const OpContext& c) {
  const OneDnn& onednn = algorithms.onednn();
  const Problem p = backward_weights_problem(c);
  Choice choice;
  const auto found =
      algorithms.best<BackwardWeights>(c, p.suits_winograd(), choice, [&](const std::string& how) {
        return backward_weights(onednn, p, Descriptors(p, how), algorithm_named(how));
      });
  if (!found) return select_own_winograd(c);
  choice.inputs = {to_layout(found->src_desc(), p.x), to_layout(found->diff_dst_desc(), p.y)};
  choice.outputs = {to_layout(found->diff_weights_desc(), p.w), Layout{}};
  const Descriptors d(p, choice.inputs[Conv2dBackwardWeights::kX],
                      choice.outputs[Conv2dBackwardWeights::kDweight],
                      choice.inputs[Conv2dBackwardWeights::kDy]);
  describe(choice, backward_weights(onednn, p, d, algorithm_named(choice.algorithm)));
  return choice;
}

std::unique_ptr<Kernel> compile_backward_weights(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                                 const Choice& choice, const Slots& slots) {
  const Problem p = backward_weights_problem(c);
  const Descriptors d(p, choice.inputs[Conv2dBackwardWeights::kX],
                      choice.outputs[Conv2dBackwardWeights::kDweight],
                      choice.inputs[Conv2dBackwardWeights::kDy]);
  const auto found = backward_weights(*onednn, p, d, algorithm_named(choice.algorithm));
  std::vector<Argument> arguments{
      {DNNL_ARG_SRC, d.x, slots.inputs[Conv2dBackwardWeights::kX]},
      {DNNL_ARG_DIFF_DST, d.y, slots.inputs[Conv2dBackwardWeights::kDy]},
      {DNNL_ARG_DIFF_WEIGHTS, d.w, slots.outputs[Conv2dBackwardWeights::kDweight]},
      workspace_argument(found, choice, slots)};
  if (p.bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, d.bias, slots.outputs[Conv2dBackwardWeights::kDbias]});
  return primitive_kernel(onednn, BackwardWeights(found), arguments);
}

}  // namespace

void add_convolution(Handlers& handlers) {
  const auto onednn = std::make_shared<OneDnn>();
  const AlgorithmChoice algorithms(onednn, handlers.tuning(), handlers.own_winograd());
  auto handler = [&](auto select, auto compile) {
    return onednn_handler(
        onednn, [=](const OneDnn&, const OpContext& c, const OpenLayouts&) { return select(algorithms, c); },
        [=](const std::shared_ptr<OneDnn>& engine, const OpContext& c, const Choice& choice,
            const Slots& slots) {
          if (choice.algorithm == kOwnWinograd) return compile_own_winograd(c, choice, slots);
          return compile(engine, c, choice, slots);
        });
  };
  handlers[typeid(Conv2d)] = handler(select_forward, compile_forward);
  handlers[typeid(Conv2d)].why_not = why_not_forward;
  handlers[typeid(Conv2dBackwardData)] = handler(select_backward_data, compile_backward_data);
  handlers[typeid(Conv2dBackwardWeights)] = handler(select_backward_weights, compile_backward_weights);
  handlers[typeid(Conv2dBackwardWeights)].why_not = why_not_backward_weights;
}

}  // namespace trainer::cpu
