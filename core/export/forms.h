// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/export/onnx_graph.h"
#include "core/graph/operation.h"

namespace trainer {

/// One node of a program while its ONNX form is written. Shapes have kAnyBatch where the batch may have any
/// size.
class ExportedNode {
 public:
  ExportedNode(OnnxGraph& to, const Node& node, std::vector<OnnxGraph::Value> values,
               std::vector<Shape> of_inputs, Shape of_output, const Program& program);

  OnnxGraph& graph;

  const Operation& op() const { return *node_.op; }
  const Origin& origin() const { return node_.origin; }
  bool has(size_t input) const { return node_.inputs[input] != kNone; }
  /// The value of an input; empty if it is absent.
  const OnnxGraph::Value& x(size_t input) const { return values_[input]; }
  const std::vector<OnnxGraph::Value>& all() const { return values_; }
  const Shape& shape(size_t input) const { return shapes_[input]; }
  /// Of the first output.
  const Shape& output() const { return output_; }
  /// Scale and zero point of the first output; nothing: it is f32.
  const std::optional<Quantization>& quantization() const {
    return program_.tensor(node_.outputs[0]).quantization;
  }
  /// The first values of an input that is a constant of the program.
  const Initial& initial(size_t input) const { return program_.tensor(node_.inputs[input]).initial; }

  /// An attribute, as the operation describes it. Throws std::logic_error if it has none of this name.
  template <class T>
  T attribute(std::string_view name) const {
    return std::get<T>(find(name));
  }
  /// Throws std::logic_error if one of these inputs is given, or one of these flags set: passes do that,
  /// and programs are exported before all passes.
  void require_plain(std::initializer_list<size_t> inputs,
                     std::initializer_list<std::string_view> flags) const;
  /// Throws Error (exit 78) at the layer.
  [[noreturn]] void refuse(const std::string& remedy) const;

 private:
  const AttributeValue& find(std::string_view name) const;

  const Node& node_;
  const Program& program_;
  std::vector<OnnxGraph::Value> values_;
  std::vector<Shape> shapes_;
  Shape output_;
  std::vector<Attribute> attributes_;
};

/// Writes the nodes of an operation; returns the value of its first output.
using OnnxForm = OnnxGraph::Value (*)(const ExportedNode& node);

struct OnnxRow {
  std::string_view operation;  ///< its name
  OnnxForm form;
};

/// A row for each operation of forward programs, but for element-wise functions, which have their forms
/// themselves (core/graph/ops/elementwise.h).
std::span<const OnnxRow> onnx_rows();
/// The form of an operation; nullptr if it has none.
OnnxForm onnx_form(const Operation& op);

/// Throws Error (exit 78) at the layer if the reader does not take the nodes from `first` on.
void check_reader(const ExportedNode& node, size_t first);

/// Appends what fusion has moved into a product or sum: the addition of `addend`, unless that is empty, and a
/// relu clipped at `ceiling`.
OnnxGraph::Value with_end(OnnxGraph& graph, OnnxGraph::Value y, const OnnxGraph::Value& addend, bool relu,
                          double ceiling = std::numeric_limits<double>::infinity());

// The forms, by their files. A tensor of bytes is represented by its dequantised values.
namespace onnx_form_of {
using Value = OnnxGraph::Value;

Value quantize(const ExportedNode& node);
Value dequantize(const ExportedNode& node);
Value quantized_conv2d(const ExportedNode& node);
Value quantized_linear(const ExportedNode& node);
/// Of a quantised product: its dequantised weights, transposed to (K, O) or not, and its result with fused
/// operations and rounding.
Value rounded_weights(const ExportedNode& node);
Value rounded_transposed_weights(const ExportedNode& node);
Value rounded_result(const ExportedNode& node, const Value& y);

Value conv2d(const ExportedNode& node);
Value conv2d_backward_data(const ExportedNode& node);
Value max_pool2d(const ExportedNode& node);
Value avg_pool2d(const ExportedNode& node);
Value resample2d(const ExportedNode& node);

Value batch_norm(const ExportedNode& node);
Value group_norm(const ExportedNode& node);
Value layer_norm(const ExportedNode& node);
Value rms_norm(const ExportedNode& node);

Value attention(const ExportedNode& node);
Value rotary(const ExportedNode& node);
Value add_positions(const ExportedNode& node);
Value embedding(const ExportedNode& node);

Value linear(const ExportedNode& node);
Value matmul(const ExportedNode& node);
Value add(const ExportedNode& node);
Value mul(const ExportedNode& node);
Value scale_features(const ExportedNode& node);
Value scale_channels(const ExportedNode& node);
Value add_channels(const ExportedNode& node);
Value softmax(const ExportedNode& node);
Value log_softmax(const ExportedNode& node);
Value unary(const ExportedNode& node);
Value gated(const ExportedNode& node);

Value reshape(const ExportedNode& node);
Value transpose(const ExportedNode& node);
Value slice(const ExportedNode& node);
Value pad(const ExportedNode& node);
Value concat(const ExportedNode& node);
Value repeat_samples(const ExportedNode& node);
Value images_to_tokens(const ExportedNode& node);
Value tokens_to_images(const ExportedNode& node);
}  // namespace onnx_form_of

}  // namespace trainer
