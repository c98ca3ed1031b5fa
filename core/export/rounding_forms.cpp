// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "core/export/forms.h"
#include "core/graph/ops/quantize.h"
#include "core/graph/ops/quantized_product.h"

// Quantisation. Values stay f32 in the graph, and are rounded.

namespace trainer::onnx_form_of {
namespace {

constexpr const char* kQonnx = "qonnx.custom_op.general";

struct QuantForm {
  int64_t bits;
  bool is_signed, is_symmetric;
};

/// Quant of QONNX. Its zero point is 0.
Value quant(OnnxGraph& graph, const Value& x, const Value& scale, const QuantForm& form) {
  return graph.foreign_node(kQonnx, "Quant",
                            {x, scale, graph.number(0), graph.number(static_cast<double>(form.bits))},
                            {{"signed", int64_t{form.is_signed}},
                             {"narrow", int64_t{form.is_symmetric}},
                             {"rounding_mode", std::string("ROUND")}});
}

/// x, quantised and dequantised again.
Value rounded(OnnxGraph& graph, const Value& x, const Quantization& to) {
  const Value scale = graph.number(to.scale);
  if (graph.format().dialect == OnnxDialect::qonnx)
    return quant(
        graph, x, scale,
        {.bits = graph.format().activations.bits, .is_signed = to.zero_point != 0, .is_symmetric = false});
  const Value zero = graph.byte(static_cast<uint8_t>(to.zero_point));
  return graph.node("DequantizeLinear", {graph.node("QuantizeLinear", {x, scale, zero}), scale, zero});
}

/// Dequantised weights. `axis` is the dimension of their scales, if there are several.
Value of_integers(const ExportedNode& node, const Value& integers, int64_t axis) {
  OnnxGraph& graph = node.graph;
  const WeightLevels& levels = graph.format().weights;
  const Value& scale = node.x(QuantizedProduct::kMultiplier);
  if (graph.format().dialect == OnnxDialect::qonnx)
    return quant(graph, integers, scale, {.bits = levels.bits, .is_signed = true, .is_symmetric = true});
  const Shape scales = levels.per_tensor ? Shape{} : Shape{node.shape(QuantizedProduct::kWeight)[0]};
  std::vector<OnnxAttribute> attributes;
  if (!levels.per_tensor) attributes.push_back({"axis", axis});
  return graph.node("DequantizeLinear", {integers, scale, graph.signed_zeros(scales)}, std::move(attributes));
}

}  // namespace

Value quantize(const ExportedNode& node) {
  return rounded(node.graph, node.x(Quantize::kX), *node.quantization());
}

/// Tensors of bytes are represented by dequantised values already.
Value dequantize(const ExportedNode& node) {
  return node.x(Dequantize::kX);
}

Value rounded_weights(const ExportedNode& node) {
  return of_integers(node, node.x(QuantizedProduct::kWeight), 0);
}

/// Transposes the integers, a constant, rather than the dequantised weights. Quant with several scales needs
/// their original shape.
Value rounded_transposed_weights(const ExportedNode& node) {
  OnnxGraph& graph = node.graph;
  if (graph.format().dialect == OnnxDialect::qonnx && !graph.format().weights.per_tensor)
    return graph.transpose(rounded_weights(node), {1, 0});
  return of_integers(node, graph.transpose(node.x(QuantizedProduct::kWeight), {1, 0}), 1);
}

Value rounded_result(const ExportedNode& node, const Value& y) {
  const auto& op = dynamic_cast<const QuantizedProduct&>(node.op());
  const Value ended =
      with_end(node.graph, y, node.x(QuantizedProduct::kResidual), op.end.relu, op.end.ceiling);
  return node.quantization() ? rounded(node.graph, ended, *node.quantization()) : ended;
}

}  // namespace trainer::onnx_form_of
