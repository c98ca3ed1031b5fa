// SPDX-License-Identifier: Apache-2.0
#include "core/export/onnx_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace trainer {
namespace {

/// Elements as the file holds them: little-endian, as this machine's.
template <class T>
std::string bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

OnnxGraph::Value OnnxGraph::unique(const std::string& wanted) {
  std::string name = wanted;
  while (!names_.insert(name).second) name = fmt::format("{}_{}", wanted, ++uses_[wanted]);
  return name;
}

OnnxGraph::Value OnnxGraph::node(std::string_view type, std::vector<Value> inputs,
                                 std::vector<OnnxAttribute> attributes) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  std::string name = unique(layer_.empty() ? std::string(type) : fmt::format("{}/{}", layer_, type));
  nodes_.push_back({std::string(type), name, std::move(inputs), name, std::move(attributes)});
  return name;
}

OnnxGraph::Value OnnxGraph::foreign_node(std::string_view domain, std::string_view type,
                                         std::vector<Value> inputs, std::vector<OnnxAttribute> attributes) {
  Value made = node(type, std::move(inputs), std::move(attributes));
  nodes_.back().domain = domain;
  return made;
}

OnnxGraph::Value OnnxGraph::constant(OnnxTensor tensor, std::string bytes) {
  const std::string key =
      fmt::format("{} {} ", static_cast<int>(tensor.element), fmt::join(tensor.shape, ",")) + bytes;
  const auto [place, is_new] = constants_.emplace(key, "");
  if (!is_new) return place->second;
  place->second = tensor.name = unique(onnx::kConstantName);
  initializers_.push_back({std::move(tensor), std::move(bytes)});
  return place->second;
}

OnnxGraph::Value OnnxGraph::number(double value) {
  const auto number = static_cast<float>(value);
  return floats({}, std::span(&number, 1));
}

OnnxGraph::Value OnnxGraph::integers(const std::vector<int64_t>& values) {
  return constant({"", onnx::Element::i64, {std::ssize(values)}}, bytes_of(std::span(values)));
}

OnnxGraph::Value OnnxGraph::floats(const Shape& shape, std::span<const float> values) {
  return constant({"", onnx::Element::f32, shape}, bytes_of(values));
}

OnnxGraph::Value OnnxGraph::byte(uint8_t value) {
  return constant({"", onnx::Element::u8, {}}, bytes_of(std::span<const uint8_t>(&value, 1)));
}

OnnxGraph::Value OnnxGraph::signed_zeros(const Shape& shape) {
  return constant({"", onnx::Element::i8, shape}, std::string(static_cast<size_t>(numel(shape)), '\0'));
}

OnnxGraph::Value OnnxGraph::batch() {
  return once("batch", [&] {
    return node("Shape", {inputs_.at(0).name}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  });
}

OnnxGraph::Value OnnxGraph::once(const std::string& key, const std::function<Value()>& make) {
  const auto [place, is_new] = made_.emplace(key, "");
  if (is_new) place->second = make();
  return place->second;
}

OnnxGraph::Value OnnxGraph::weight(const std::string& name, const Shape& shape, onnx::Element element) {
  if (written_.insert(name).second) initializers_.push_back({{name, element, shape}, ""});
  return name;
}

OnnxGraph::Value OnnxGraph::table(const std::string& name, const Shape& shape,
                                  std::span<const float> values) {
  names_.insert(name);
  if (written_.insert(name).second)
    initializers_.push_back({{name, onnx::Element::f32, shape}, bytes_of(values)});
  return name;
}

OnnxGraph::Value OnnxGraph::slice(const Value& x, int64_t axis, int64_t begin, int64_t end) {
  return node("Slice", {x, integers({begin}), integers({end}), integers({axis})});
}

OnnxGraph::Value OnnxGraph::transpose(const Value& x, const std::vector<int64_t>& order) {
  return node("Transpose", {x}, {{"perm", order}});
}

OnnxGraph::Value OnnxGraph::concat(const std::vector<Value>& all, int64_t axis) {
  return node("Concat", all, {{"axis", axis}});
}

OnnxGraph::Value OnnxGraph::expand(const Value& x, const Shape& shape) {
  if (shape[0] != kAnyBatch) return node("Expand", {x, integers(shape)});
  const std::vector<int64_t> others(shape.begin() + 1, shape.end());
  return node("Expand", {x, concat({batch(), integers(others)}, 0)});
}

void OnnxGraph::add_input(OnnxTensor tensor) {
  names_.insert(tensor.name);
  typed_.insert(tensor.name);
  inputs_.push_back(std::move(tensor));
}

void OnnxGraph::set_output(const Value& value, OnnxTensor tensor) {
  layer_.clear();
  // A network without operations gives its input.
  const bool is_made = std::ranges::find(nodes_, value, &OnnxNode::output) != nodes_.end();
  const Value made = is_made ? value : node("Identity", {value});
  if (!names_.insert(tensor.name).second)
    throw Error(ExitCode::recipe,
                fmt::format("the file's output is named {0}, as a weight of the network is; give "
                            "the layer '{0}' another name",
                            tensor.name));
  for (OnnxNode& each : nodes_) {
    if (each.output == made) each.output = tensor.name;
    std::ranges::replace(each.inputs, made, tensor.name);
  }
  std::erase_if(described_, [&](const OnnxTensor& known) { return known.name == made; });
  output_ = std::move(tensor);
}

void OnnxGraph::drop_unread() {
  std::set<std::string> read;
  for (const OnnxNode& node : nodes_) read.insert(node.inputs.begin(), node.inputs.end());
  std::erase_if(initializers_, [&](const OnnxInitializer& each) { return !read.contains(each.tensor.name); });
}

void OnnxGraph::describe(const Value& value, onnx::Element element, const Shape& shape) {
  const bool has_type = written_.contains(value) || !typed_.insert(value).second;
  if (!has_type) described_.push_back({value, element, shape});
}

}  // namespace trainer
