// SPDX-License-Identifier: Apache-2.0
#include "core/export/export_program.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>

#include "core/export/forms.h"
#include "core/graph/names.h"

namespace trainer {
namespace {

using onnx::Element;

/// Writes one program node by node.
class ProgramExport {
 public:
  ProgramExport(const Program& program, const Program* other, const ExportRequest& request)
      : program_(program), other_(other), request_(request), graph_(request.format) {
    if (other_ != nullptr && other_->tensors.size() != program_.tensors.size())
      throw std::logic_error("programs of one network differ in more than the batch");
  }

  OnnxGraph run();

 private:
  OnnxGraph::Value read_input(TensorId id);
  OnnxGraph::Value value_of(TensorId id);
  OnnxGraph::Value constant(const Tensor& tensor);
  Shape shape_of(TensorId id, const Origin& origin) const;
  void write(const Node& node);
  void write_output(TensorId logits);

  const Program& program_;
  const Program* other_;
  const ExportRequest& request_;
  OnnxGraph graph_;
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
  const Tensor& tensor = program_.tensor(id);
  if (tensor.role == Role::constant) return constant(tensor);
  if (tensor.role == Role::parameter || tensor.role == Role::state)
    return graph_.weight(tensor.name, tensor.spec.shape);
  throw std::logic_error(fmt::format("prediction reads {} '{}'", to_string(tensor.role), tensor.name));
}

void ProgramExport::write(const Node& node) {
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

OnnxGraph ProgramExport::run() {
  const Entry* entry = program_.find_entry(entry_name::kPredict);
  if (entry == nullptr) throw std::logic_error("a program without prediction is exported");
  for (const Tensor& tensor : program_.tensors) graph_.reserve(tensor.name);
  for (const char* name : {input_name::kImages, input_name::kTokens}) {
    const TensorId id = program_.find(name);
    if (id == kNone) continue;
    samples_ = program_.spec(id).shape[0];
    other_samples_ = other_ == nullptr ? 0 : other_->spec(id).shape[0];
    values_[id] = read_input(id);
  }
  for (const Node& node : entry->nodes) write(node);
  write_output(entry->output(output_name::kLogits));
  graph_.drop_unread();  // constants whose numbers alone a form has read
  return std::move(graph_);
}

}  // namespace

OnnxGraph export_program(const Program& program, const Program* other, const ExportRequest& request) {
  return ProgramExport(program, other, request).run();
}

}  // namespace trainer
