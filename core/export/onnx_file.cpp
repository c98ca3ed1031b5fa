// SPDX-License-Identifier: Apache-2.0
#include "core/export/onnx_file.h"

#include <fmt/format.h>

#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "core/base/version.h"

namespace trainer {
namespace {

namespace model_field = onnx::model_field;
namespace opset_field = onnx::opset_field;
namespace graph_field = onnx::graph_field;
namespace node_field = onnx::node_field;
namespace attribute_field = onnx::attribute_field;
namespace attribute_type = onnx::attribute_type;
namespace value_field = onnx::value_field;
namespace type_field = onnx::type_field;
namespace tensor_field = onnx::tensor_field;
namespace entry_field = onnx::entry_field;
using onnx::kExternal;
using protozero::pbf_writer;

/// Readers map the data into memory, and align vectors to cache lines.
constexpr int64_t kDataAlignment = 64;

int64_t weight_bytes(const OnnxInitializer& initializer) {
  if (!initializer.is_weight()) return std::ssize(initializer.bytes);
  const int64_t each = initializer.tensor.element == onnx::Element::i8 ? 1 : 4;
  return numel(initializer.tensor.shape) * each;
}

/// Tag and length of a field of `bytes` bytes. protozero's own lengths have 32 bits.
std::string head_of(uint32_t field, int64_t bytes) {
  constexpr uint32_t kLengthDelimited = 2, kTypeBits = 3;
  std::string head;
  const auto put = [&](uint64_t number) { protozero::add_varint_to_buffer(&head, number); };
  put(field << kTypeBits | kLengthDelimited);
  put(static_cast<uint64_t>(bytes));
  return head;
}

/// Takes the parts of the file in their order: texts, and the data of weights.
class Parts {
 public:
  virtual ~Parts() = default;
  virtual void text(const std::string& bytes) = 0;
  virtual void weight(const OnnxInitializer& initializer) = 0;
};

class Count final : public Parts {
 public:
  int64_t bytes = 0;
  void text(const std::string& part) override { bytes += std::ssize(part); }
  void weight(const OnnxInitializer& initializer) override { bytes += weight_bytes(initializer); }
};

/// The bytes of a weight: as many as its shape takes.
void put_weight(const OnnxInitializer& initializer, const WeightSource& weights, const ByteSink& sink) {
  int64_t given = 0;
  weights(initializer.tensor.name, [&](std::span<const std::byte> piece) {
    given += std::ssize(piece);
    sink(piece);
  });
  if (given != weight_bytes(initializer))
    throw std::logic_error(fmt::format("{} has {} bytes, expected {}", initializer.tensor.name, given,
                                       weight_bytes(initializer)));
}

class Sink final : public Parts {
 public:
  Sink(const WeightSource& weights, const ByteSink& sink) : weights_(weights), sink_(sink) {}
  void text(const std::string& part) override { sink_(std::as_bytes(std::span(part))); }
  void weight(const OnnxInitializer& initializer) override { put_weight(initializer, weights_, sink_); }

 private:
  const WeightSource& weights_;
  const ByteSink& sink_;
};

void put_message(Parts& parts, uint32_t field, const std::string& message) {
  parts.text(head_of(field, std::ssize(message)) + message);
}

std::string dimension(int64_t size) {
  std::string message;
  pbf_writer writer(message);
  size == kAnyBatch ? writer.add_string(type_field::kSymbol, "N") : writer.add_int64(type_field::kSize, size);
  return message;
}

std::string value_info(const OnnxTensor& tensor) {
  std::string shape, of_tensor, type, message;
  for (const int64_t size : tensor.shape)
    pbf_writer(shape).add_message(type_field::kDimension, dimension(size));
  pbf_writer(of_tensor).add_int32(type_field::kElement, static_cast<int32_t>(tensor.element));
  pbf_writer(of_tensor).add_message(type_field::kShape, shape);
  pbf_writer(type).add_message(type_field::kTensor, of_tensor);
  pbf_writer(message).add_string(value_field::kName, tensor.name);
  pbf_writer(message).add_message(value_field::kType, type);
  return message;
}

struct AttributeFields {
  pbf_writer& writer;
  void put_type(int32_t type) const { writer.add_int32(attribute_field::kType, type); }
  void operator()(int64_t value) const {
    put_type(attribute_type::kInt);
    writer.add_int64(attribute_field::kInt, value);
  }
  void operator()(double value) const {
    put_type(attribute_type::kFloat);
    writer.add_float(attribute_field::kFloat, static_cast<float>(value));
  }
  void operator()(const std::string& value) const {
    put_type(attribute_type::kString);
    writer.add_bytes(attribute_field::kString, value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    put_type(attribute_type::kInts);
    for (const int64_t value : values) writer.add_int64(attribute_field::kInts, value);
  }
};

std::string node_message(const OnnxNode& node) {
  std::string message;
  pbf_writer writer(message);
  for (const std::string& input : node.inputs) writer.add_string(node_field::kInput, input);
  writer.add_string(node_field::kOutput, node.output);
  writer.add_string(node_field::kName, node.name);
  writer.add_string(node_field::kOpType, node.type);
  if (!node.domain.empty()) writer.add_string(node_field::kDomain, node.domain);
  for (const OnnxAttribute& attribute : node.attributes) {
    std::string fields;
    pbf_writer of_attribute(fields);
    of_attribute.add_string(attribute_field::kName, attribute.name);
    std::visit(AttributeFields{of_attribute}, attribute.value);
    writer.add_message(node_field::kAttribute, fields);
  }
  return message;
}

std::string entry_message(const std::string& key, const std::string& value) {
  std::string message;
  pbf_writer(message).add_string(entry_field::kKey, key);
  pbf_writer(message).add_string(entry_field::kValue, value);
  return message;
}

/// Where the data of a weight is in the other file.
struct ExternalPlace {
  std::string file;
  int64_t offset;
};

/// A TensorProto without its elements.
std::string tensor_message(const OnnxInitializer& initializer, const ExternalPlace* place) {
  std::string message;
  pbf_writer writer(message);
  for (const int64_t size : initializer.tensor.shape) writer.add_int64(tensor_field::kDims, size);
  writer.add_int32(tensor_field::kDataType, static_cast<int32_t>(initializer.tensor.element));
  writer.add_string(tensor_field::kName, initializer.tensor.name);
  if (place == nullptr) return message;
  const auto put = [&](const std::string& key, const std::string& value) {
    writer.add_message(tensor_field::kExternalData, entry_message(key, value));
  };
  put("location", place->file);
  put("offset", std::to_string(place->offset));
  put("length", std::to_string(weight_bytes(initializer)));
  writer.add_int32(tensor_field::kDataLocation, kExternal);
  return message;
}

void put_initializer(Parts& parts, const OnnxInitializer& initializer) {
  std::string tensor = tensor_message(initializer, nullptr);
  const int64_t bytes = weight_bytes(initializer);
  tensor += head_of(tensor_field::kRawData, bytes);
  parts.text(head_of(graph_field::kInitializer, std::ssize(tensor) + bytes) + tensor);
  initializer.is_weight() ? parts.weight(initializer) : parts.text(initializer.bytes);
}

/// Calls take(initializer, offset) for each weight of the other file.
template <class Take>
void visit_data(const OnnxGraph& graph, const Take& take) {
  int64_t offset = 0;
  for (const OnnxInitializer& initializer : graph.initializers()) {
    if (!initializer.is_weight()) continue;
    take(initializer, offset);
    offset += (weight_bytes(initializer) + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  }
}

void put_graph(Parts& parts, const OnnxGraph& graph, const std::string& data_file) {
  for (const OnnxNode& node : graph.nodes()) put_message(parts, graph_field::kNode, node_message(node));
  std::string name;
  pbf_writer(name).add_string(graph_field::kName, "network");
  parts.text(name);
  for (const OnnxInitializer& initializer : graph.initializers()) {
    if (data_file.empty() || !initializer.is_weight()) put_initializer(parts, initializer);
  }
  if (!data_file.empty()) {
    visit_data(graph, [&](const OnnxInitializer& initializer, int64_t offset) {
      const ExternalPlace place{data_file, offset};
      put_message(parts, graph_field::kInitializer, tensor_message(initializer, &place));
    });
  }
  for (const OnnxTensor& input : graph.inputs()) put_message(parts, graph_field::kInput, value_info(input));
  put_message(parts, graph_field::kOutput, value_info(graph.output()));
  for (const OnnxTensor& tensor : graph.described())
    put_message(parts, graph_field::kValueInfo, value_info(tensor));
}

std::string opset_message(const std::string& domain, int64_t version) {
  std::string message;
  pbf_writer(message).add_string(opset_field::kDomain, domain);
  pbf_writer(message).add_int64(opset_field::kVersion, version);
  return message;
}

/// All but the graph.
std::string model_fields(const OnnxGraph& graph) {
  constexpr int64_t kIrOfOpset17 = 8, kIrOfOpset23 = 11;
  std::string message;
  pbf_writer writer(message);
  writer.add_int64(model_field::kIrVersion, graph.opset() < 23 ? kIrOfOpset17 : kIrOfOpset23);
  writer.add_string(model_field::kProducerName, "trainer");
  writer.add_string(model_field::kProducerVersion, kVersion);
  writer.add_message(model_field::kOpsetImport, opset_message("", graph.opset()));
  std::set<std::string> others;
  for (const OnnxNode& node : graph.nodes()) others.insert(node.domain);
  for (const std::string& domain : others) {
    if (!domain.empty()) writer.add_message(model_field::kOpsetImport, opset_message(domain, 1));
  }
  return message;
}

int64_t graph_bytes(const OnnxGraph& graph, const std::string& data_file) {
  Count count;
  put_graph(count, graph, data_file);
  return count.bytes;
}

}  // namespace

int64_t onnx_bytes(const OnnxGraph& graph) {
  const int64_t bytes = graph_bytes(graph, "");
  return std::ssize(model_fields(graph)) + std::ssize(head_of(model_field::kGraph, bytes)) + bytes;
}

void compose_onnx(const OnnxGraph& graph, const WeightSource& weights, const std::string& data_file,
                  const ByteSink& sink) {
  Sink parts(weights, sink);
  parts.text(model_fields(graph));
  parts.text(head_of(model_field::kGraph, graph_bytes(graph, data_file)));
  put_graph(parts, graph, data_file);
}

void compose_onnx_data(const OnnxGraph& graph, const WeightSource& weights, const ByteSink& sink) {
  int64_t written = 0;
  visit_data(graph, [&](const OnnxInitializer& initializer, int64_t offset) {
    const std::string gap(static_cast<size_t>(offset - written), '\0');
    sink(std::as_bytes(std::span(gap)));
    put_weight(initializer, weights, sink);
    written = offset + weight_bytes(initializer);
  });
}

}  // namespace trainer
