// SPDX-License-Identifier: Apache-2.0
#include "core/export/export_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "core/export/forms.h"
#include "core/graph/names.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/quantize.h"
#include "core/storage/safetensors.h"

namespace trainer {
namespace {

using onnx::Element;

/// The usual name of the bias beside these weights.
std::string bias_beside(const std::string& weights) {
  constexpr std::string_view kWeight = "weight";
  const bool is_usual = weights.ends_with(kWeight);
  return (is_usual ? weights.substr(0, weights.size() - kWeight.size()) : weights + ".") + "bias";
}

/// Writes one program node by node.
class ProgramExport {
 public:
  ProgramExport(const Program& program, const Program* other, const ExportRequest& request)
      : program_(program),
        other_(other),
        request_(request),
        graph_(request.format),
        weights_(program, request.format.dialect == OnnxDialect::qdq ? PreparedWeights::Biases::of_32_bits
                                                                     : PreparedWeights::Biases::any) {
    if (other_ != nullptr && other_->tensors.size() != program_.tensors.size())
      throw std::logic_error("programs of one network differ in more than the batch");
  }

  ExportedProgram run();

 private:
  OnnxGraph::Value read_input(TensorId id);
  OnnxGraph::Value value_of(TensorId id);
  OnnxGraph::Value constant(const Tensor& tensor);
  Shape shape_of(TensorId id, const Origin& origin) const;
  void write(const Node& node);
  void write_form(const Node& node);
  OnnxGraph::Value prepared(TensorId id);
  OnnxGraph::Value named(const std::string& name, const Shape& shape, TensorId id,
                         PreparedWeights::Form form);
  void write_output(TensorId logits);

  const Program& program_;
  const Program* other_;
  const ExportRequest& request_;
  OnnxGraph graph_;
  PreparedWeights weights_;
  std::map<TensorId, int> readers_;  ///< of parameters
  std::map<TensorId, OnnxGraph::Value> values_;
  int64_t samples_ = 0, other_samples_ = 0;
};

Shape ProgramExport::shape_of(TensorId id, const Origin& origin) const {
  Shape shape = program_.spec(id).shape;
  if (other_ == nullptr) return shape;
  const Shape& other = other_->spec(id).shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == other[d]) continue;
    if (d > 0 || shape[d] != samples_ || other[d] != other_samples_)
      fail_at(origin,
              "mixes the samples of a batch, so that the file needs a fixed one; export with --batch N");
    shape[d] = kAnyBatch;
  }
  return shape;
}

/// Bytes become numbers in the graph.
OnnxGraph::Value ProgramExport::read_input(TensorId id) {
  const Tensor& input = program_.tensor(id);
  const bool is_tokens = input.spec.dtype == DType::i32;
  const Shape shape = shape_of(id, {});
  const Element element = is_tokens ? Element::i64 : request_.bytes ? Element::u8 : Element::f32;
  graph_.add_input({input.name, element, shape});
  if (!request_.bytes) return input.name;
  const Shape of_channels{shape[1], 1, 1};
  graph_.set_layer(input.name);
  OnnxGraph::Value y = graph_.node("Cast", {input.name}, {{"to", static_cast<int64_t>(Element::f32)}});
  y = graph_.node("Mul", {y, graph_.floats(of_channels, request_.bytes->scale)});
  return graph_.node("Add", {y, graph_.floats(of_channels, request_.bytes->offset)});
}

/// A table, or one number everywhere.
OnnxGraph::Value ProgramExport::constant(const Tensor& tensor) {
  std::vector<float> values(tensor.initial.table.begin(), tensor.initial.table.end());
  if (tensor.initial.kind == Initial::Kind::fill)
    values.assign(static_cast<size_t>(numel(tensor.spec.shape)), static_cast<float>(tensor.initial.a));
  return graph_.table(tensor.name, tensor.spec.shape, values);
}

OnnxGraph::Value ProgramExport::value_of(TensorId id) {
  if (id == kNone) return "";
  if (const auto known = values_.find(id); known != values_.end()) return known->second;
  if (weights_.maker_of(id) != nullptr) return prepared(id);
  const Tensor& tensor = program_.tensor(id);
  if (tensor.role == Role::constant) return constant(tensor);
  if (tensor.role == Role::parameter || tensor.role == Role::state)
    return graph_.weight(tensor.name, tensor.spec.shape);
  throw std::logic_error(fmt::format("prediction reads {} '{}'", to_string(tensor.role), tensor.name));
}

/// A tensor computed from weights replaces them in the file. It takes their name, unless something else uses
/// it.
OnnxGraph::Value ProgramExport::prepared(TensorId id) {
  using Form = PreparedWeights::Form;
  const Node& maker = *weights_.maker_of(id);
  const std::string& name = weights_.parameter_of(id);
  const Shape& shape = program_.spec(id).shape;
  const bool is_first = id == maker.outputs[0];
  if (dynamic_cast<const FoldBatchNorm*>(maker.op.get()) != nullptr)
    return is_first ? named(name, shape, id, Form::numbers)
                    : named(bias_beside(name), shape, id, Form::numbers);
  const bool is_qonnx = graph_.format().dialect == OnnxDialect::qonnx;
  if (is_first) return named(name, shape, id, is_qonnx ? Form::numbers : Form::integers);
  const std::string scale = name + std::string(kScaleSuffix);
  if (graph_.format().weights.per_tensor) return named(scale, {}, id, Form::one_number);
  Shape beside_weights = program_.spec(maker.outputs[0]).shape;  // Quant broadcasts its scales
  std::fill(beside_weights.begin() + 1, beside_weights.end(), 1);
  return named(scale, is_qonnx ? beside_weights : shape, id, Form::numbers);
}

OnnxGraph::Value ProgramExport::named(const std::string& name, const Shape& shape, TensorId id,
                                      PreparedWeights::Form form) {
  const TensorId other = program_.find(name);
  const bool takes_place = other != kNone && weights_.is_made_of(id, other) && readers_[other] == 1;
  const std::string unique = takes_place && !weights_.has(name) ? name : graph_.unique(name);
  weights_.add(unique, id, form);
  const bool is_narrow = form == PreparedWeights::Form::integers;
  return values_[id] = graph_.weight(unique, shape, is_narrow ? Element::i8 : Element::f32);
}

void ProgramExport::write(const Node& node) {
  if (weights_.maker_of(node.outputs[0]) != nullptr) return;  // computed on export
  // ONNX keeps the scales of inputs and weights apart, and adds the bias after the product.
  if (dynamic_cast<const ProductScales*>(node.op.get()) != nullptr) {
    values_[node.outputs[ProductScales::kMultiplier]] = value_of(node.inputs[ProductScales::kScale]);
    values_[node.outputs[ProductScales::kShiftedBias]] = value_of(node.inputs[ProductScales::kBias]);
    return;
  }
  write_form(node);
}

void ProgramExport::write_form(const Node& node) {
  std::vector<OnnxGraph::Value> values;
  std::vector<Shape> shapes;
  graph_.set_layer(request_.layer_of(node.origin));
  for (const TensorId id : node.inputs) {
    values.push_back(value_of(id));
    shapes.push_back(id == kNone ? Shape{} : shape_of(id, node.origin));
  }
  const TensorId y = node.outputs.at(0);
  const ExportedNode exported(graph_, node, std::move(values), std::move(shapes), shape_of(y, node.origin),
                              program_);
  const OnnxForm form = onnx_form(*node.op);
  if (form == nullptr) exported.refuse("leave this layer out of networks that are exported");
  const size_t first = graph_.nodes().size();
  values_[y] = form(exported);
  check_reader(exported, first);
  graph_.describe(values_[y], Element::f32, exported.output());
}

void ProgramExport::write_output(TensorId logits) {
  const Shape shape = shape_of(logits, {});
  OnnxGraph::Value y = value_of(logits);
  graph_.set_layer("");
  const int64_t axis = shape.size() == 4 ? 1 : -1;
  if (request_.output == OnnxOutput::softmax) y = graph_.node("Softmax", {y}, {{"axis", axis}});
  if (request_.output == OnnxOutput::sigmoid) y = graph_.node("Sigmoid", {y});
  const bool is_logits = request_.output == OnnxOutput::logits;
  graph_.set_output(y, {is_logits ? output_name::kLogits : "probabilities", Element::f32, shape});
}

ExportedProgram ProgramExport::run() {
  const Entry* found = program_.find_entry(entry_name::kPredict);
  if (found == nullptr) throw std::logic_error("a program without prediction is exported");
  const Entry& entry = *found;
  for (const Node& node : entry.nodes) {
    for (const TensorId id : node.inputs) ++readers_[id];
  }
  for (const Tensor& tensor : program_.tensors) graph_.reserve(tensor.name);
  for (const char* name :
       {input_name::kImages, input_name::kTokens, input_name::kFeatures, input_name::kCategories}) {
    const TensorId id = program_.find(name);
    if (id == kNone) continue;
    samples_ = program_.spec(id).shape[0];
    other_samples_ = other_ == nullptr ? 0 : other_->spec(id).shape[0];
    values_[id] = read_input(id);
  }
  for (const Node& node : entry.nodes) write(node);
  write_output(entry.output(output_name::kLogits));
  graph_.drop_unread();  // constants whose numbers alone a form has read
  return {std::move(graph_), std::move(weights_)};
}

}  // namespace

ExportedProgram export_program(const Program& program, const Program* other, const ExportRequest& request) {
  return ProgramExport(program, other, request).run();
}

}  // namespace trainer
