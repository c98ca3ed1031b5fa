// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/quantized_product.h"

#include <cmath>
#include <string_view>

#include "core/graph/ops/linear.h"
#include "cpu/onednn.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

using Operand = QuantizedProduct;
using Descriptor = dnnl::memory::desc;

/// The tensors of a product in oneDNN's terms. Scales are post-operations, which oneDNN 2 and 3 read alike;
/// the scales of their attributes differ. x is u8, never i8: for the latter oneDNN appends sums to the
/// weights, which are not part of a Layout.
struct ProductInBytes {
  Descriptor x, w, y, of_outputs;  ///< the last one: multiplier and bias
  bool has_residual;
  QuantizedEnd end;

  dnnl::primitive_attr attributes() const {
    dnnl::post_ops post;
    post.append_binary(dnnl::algorithm::binary_mul, of_outputs);
    post.append_binary(dnnl::algorithm::binary_add, of_outputs);
    if (has_residual) post.append_sum(static_cast<float>(end.residual_factor));
    if (end.relu && std::isfinite(end.ceiling)) {
      append_clip(post, 0, static_cast<float>(end.ceiling));
    } else if (end.relu && end.y == DType::f32) {  // u8 is never negative
      append_relu(post);
    }
    dnnl::primitive_attr attributes = with_user_scratchpad();
    attributes.set_post_ops(post);
    return attributes;
  }
};

Descriptor dense(const Shape& shape, DType dtype) {
  return to_descriptor(Layout{}, shape, dtype);
}

/// A convolution. Its images have their channels last.
struct ConvolutionInBytes {
  using Primitive = dnnl::convolution_forward;
  Conv2dGeometry geometry;
  Shape x, w, y;  ///< weights of a grouped convolution have five dimensions
  ProductInBytes product;

  explicit ConvolutionInBytes(const OpContext& c)
      : geometry(static_cast<const QuantizedConv2d&>(c.op).geometry),
        x(c.inputs[Operand::kX].shape),
        w(c.inputs[Operand::kWeight].shape),
        y(c.outputs[Operand::kY].shape) {
    if (geometry.groups > 1) {
      w.insert(w.begin(), geometry.groups);
      w[1] /= geometry.groups;
    }
    product = {.x = images(x, DType::u8),
               .w = any_layout(w, DType::i8),
               .y = images(y, c.outputs[Operand::kY].dtype),
               .of_outputs = dense({1, y[1], 1, 1}, DType::f32),
               .has_residual = c.has_input(Operand::kResidual),
               .end = static_cast<const QuantizedConv2d&>(c.op).end};
  }
  static Descriptor images(const Shape& shape, DType dtype) {
    return {shape, to_onednn(dtype), dnnl::memory::format_tag::nhwc};
  }
  Primitive::primitive_desc describe(const OneDnn& onednn) const {
    const auto& g = geometry;
    const dnnl::memory::dims strides(g.stride.begin(), g.stride.end()),
        padding(g.padding.begin(), g.padding.end()), dilations{g.dilation[0] - 1, g.dilation[1] - 1};
    return describe_accepted<Primitive>(
        onednn.engine, product.attributes(), [this](std::string_view name) { return is_right(name); },
        dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, product.x, product.w,
        product.y, strides, dilations, padding, padding);
  }
  /// Two implementations of release 2.6 read multiplier and bias of other outputs: one by products of
  /// matrices with several groups, and the depthwise one of AVX2 and SSE4.1 with channels that fill no
  /// vector.
  bool is_right(std::string_view implementation) const {
    constexpr int64_t kVector = 8;
    const auto is = [&](std::string_view part) { return implementation.find(part) != implementation.npos; };
    const bool is_depthwise = geometry.groups > 1 && geometry.groups == x[1];
    if (geometry.groups > 1 && is("gemm")) return false;
    return !(is_depthwise && y[1] % kVector != 0 && is("jit_uni_int8"));
  }
  Layout x_layout() const { return channels_last(x); }
  Layout y_layout() const { return channels_last(y); }
};

/// A linear layer. Its features are row-major.
struct LinearInBytes {
  using Primitive = dnnl::inner_product_forward;
  Shape x, w, y;
  ProductInBytes product;

  explicit LinearInBytes(const OpContext& c)
      : x(as_rows(c.inputs[Operand::kX].shape)),
        w(c.inputs[Operand::kWeight].shape),
        y(as_rows(c.outputs[Operand::kY].shape)),
        product{.x = dense(x, DType::u8),
                .w = any_layout(w, DType::i8),
                .y = dense(y, c.outputs[Operand::kY].dtype),
                .of_outputs = dense({1, y[1]}, DType::f32),
                .has_residual = c.has_input(Operand::kResidual),
                .end = static_cast<const QuantizedLinear&>(c.op).end} {}
  Primitive::primitive_desc describe(const OneDnn& onednn) const {
    return describe_primitive<Primitive>(onednn.engine, product.attributes(),
                                         dnnl::prop_kind::forward_inference, product.x, product.w, product.y);
  }
  static Layout x_layout() { return {}; }
  static Layout y_layout() { return {}; }
};

/// The same product, with weights in this layout.
template <class Product>
typename Product::Primitive::primitive_desc describe_with(const OneDnn& onednn, Product product,
                                                          const Layout& weights) {
  product.product.w = to_descriptor(weights, product.w, DType::i8);
  return product.describe(onednn);
}

template <class Product>
Choice select_product(const OneDnn& onednn, const OpContext& c, const OpenLayouts& inputs) {
  const Product product(c);
  Choice choice = select_row_major(c, inputs);
  choice.inputs[Operand::kX] = product.x_layout();
  choice.inputs[Operand::kWeight] = to_layout(product.describe(onednn).weights_desc(), product.w);
  if (c.has_input(Operand::kResidual)) choice.inputs[Operand::kResidual] = product.y_layout();
  choice.outputs[Operand::kY] = product.y_layout();
  describe(choice, describe_with(onednn, product, choice.inputs[Operand::kWeight]));
  return choice;
}

template <class Product>
std::unique_ptr<Kernel> compile_product(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                        const Choice& choice, const Slots& slots) {
  const Product problem(c);
  const ProductInBytes& p = problem.product;
  const auto found = describe_with(*onednn, problem, choice.inputs[Operand::kWeight]);
  const auto of_post_op = [](int number) { return DNNL_ARG_ATTR_MULTIPLE_POST_OP(number) | DNNL_ARG_SRC_1; };
  auto kernel = primitive_kernel(onednn, typename Product::Primitive(found),
                                 {{DNNL_ARG_SRC, p.x, slots.inputs[Operand::kX]},
                                  {DNNL_ARG_WEIGHTS, found.weights_desc(), slots.inputs[Operand::kWeight]},
                                  {DNNL_ARG_DST, p.y, slots.outputs[Operand::kY]},
                                  {of_post_op(0), p.of_outputs, slots.inputs[Operand::kMultiplier]},
                                  {of_post_op(1), p.of_outputs, slots.inputs[Operand::kBias]},
                                  workspace_argument(found, choice, slots)});
  if (!p.has_residual) return kernel;
  return adding_kernel(std::move(kernel), stored_bytes(choice.outputs[Operand::kY], c.outputs[Operand::kY]),
                       slots.inputs[Operand::kResidual], slots.outputs[Operand::kY]);
}

template <class Product>
Handler product_handler(const std::shared_ptr<OneDnn>& onednn) {
  return onednn_handler(onednn, select_product<Product>, compile_product<Product>);
}

}  // namespace

void add_quantized_product(Handlers& handlers) {
  const auto onednn = std::make_shared<OneDnn>();
  handlers[typeid(QuantizedConv2d)] = product_handler<ConvolutionInBytes>(onednn);
  handlers[typeid(QuantizedLinear)] = product_handler<LinearInBytes>(onednn);
}

}  // namespace trainer::cpu
