// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/activation_levels.h"
#include "core/base/shape.h"
#include "core/base/variant.h"
#include "core/base/weight_bits.h"
#include "core/graph/program.h"
#include "core/storage/onnx_fields.h"

namespace trainer {

/// A dimension that counts the samples of a batch of any size.
constexpr int64_t kAnyBatch = -1;

/// The program that will read the file.
enum class OnnxReader { any, hls4ml };

/// How quantisation is written: not at all, with QuantizeLinear and DequantizeLinear, or with Quant of QONNX
/// (github.com/fastmachinelearning/qonnx), which also supports fewer than 8 bits.
enum class OnnxDialect { plain, qdq, qonnx };

/// The form of a file. Opset 17 has IR version 8, opset 23 has 11.
struct OnnxFormat {
  int64_t opset = 17;
  OnnxReader reader = OnnxReader::any;
  OnnxDialect dialect = OnnxDialect::plain;
  WeightLevels weights = {};          ///< of quantised products
  ActivationLevels activations = {};  ///< likewise
};

struct OnnxTensor {
  std::string name;
  onnx::Element element = onnx::Element::f32;
  Shape shape;  ///< of a scalar empty
};

struct OnnxAttribute {
  std::string name;
  Variant<int64_t, double, std::string, std::vector<int64_t>> value;
};

struct OnnxNode {
  std::string type, name;
  std::vector<std::string> inputs;  ///< empty names: absent
  std::string output;
  std::vector<OnnxAttribute> attributes;
  std::string domain = {};  ///< empty: ONNX's own
};

/// A tensor with values in the file: its own bytes or, if it has none, those of the weight of its name.
struct OnnxInitializer {
  OnnxTensor tensor;
  std::string bytes;
  bool is_weight() const { return bytes.empty(); }
};

/// A graph of ONNX operators, written node by node. A value is known by its name.
class OnnxGraph {
 public:
  using Value = std::string;

  explicit OnnxGraph(const OnnxFormat& format) : format_(format) {}
  const OnnxFormat& format() const { return format_; }
  int64_t opset() const { return format_.opset; }
  OnnxReader reader() const { return format_.reader; }

  /// Reserves the names of a program's tensors, which initializers keep.
  void reserve(const std::string& name) { names_.insert(name); }
  /// A name that is not used yet: this one, or this one with a number.
  Value unique(const std::string& wanted);
  /// The layer that following nodes belong to. Their names begin with it.
  void set_layer(std::string name) { layer_ = std::move(name); }

  /// Appends a node with one output; returns that.
  Value node(std::string_view type, std::vector<Value> inputs, std::vector<OnnxAttribute> attributes = {});
  /// The same with an operator of another domain.
  Value foreign_node(std::string_view domain, std::string_view type, std::vector<Value> inputs,
                     std::vector<OnnxAttribute> attributes);
  /// A scalar.
  Value number(double value);
  /// Constants, equal ones once.
  Value integers(const std::vector<int64_t>& values);
  Value floats(const Shape& shape, std::span<const float> values);
  Value byte(uint8_t value);
  /// Zeros of i8.
  Value signed_zeros(const Shape& shape);
  /// The value that `make` gives when `key` is first asked for.
  Value once(const std::string& key, const std::function<Value()>& make);
  /// The first dimension of the graph's first input, i64 (1).
  Value batch();
  /// A weight or a constant of the program under its name, made on first use.
  Value weight(const std::string& name, const Shape& shape, onnx::Element element = onnx::Element::f32);
  Value table(const std::string& name, const Shape& shape, std::span<const float> values);

  /// x in this shape; one dimension may be kAnyBatch.
  Value reshape(const Value& x, const Shape& shape) { return node("Reshape", {x, integers(shape)}); }
  /// Places [begin, end) of an axis.
  Value slice(const Value& x, int64_t axis, int64_t begin, int64_t end);
  Value transpose(const Value& x, const std::vector<int64_t>& order);
  Value concat(const std::vector<Value>& all, int64_t axis);
  /// x broadcast to this shape; the first dimension may be kAnyBatch.
  Value expand(const Value& x, const Shape& shape);

  void add_input(OnnxTensor tensor);
  /// Renames `value` to the tensor's name and makes it the graph's output. Throws Error (exit 78) if a weight
  /// has that name.
  void set_output(const Value& value, OnnxTensor tensor);
  /// Removes the initializers that no node reads.
  void drop_unread();
  /// States the type of a value; of one that has a type nothing.
  void describe(const Value& value, onnx::Element element, const Shape& shape);

  const std::vector<OnnxNode>& nodes() const { return nodes_; }
  const std::vector<OnnxInitializer>& initializers() const { return initializers_; }
  const std::vector<OnnxTensor>& inputs() const { return inputs_; }
  const std::vector<OnnxTensor>& described() const { return described_; }
  const OnnxTensor& output() const { return output_; }

 private:
  Value constant(OnnxTensor tensor, std::string bytes);

  OnnxFormat format_;
  std::string layer_;
  std::vector<OnnxNode> nodes_;
  std::vector<OnnxInitializer> initializers_;
  std::vector<OnnxTensor> inputs_, described_;
  OnnxTensor output_;
  std::set<std::string> names_, typed_, written_;
  std::map<std::string, size_t> uses_;      // of names
  std::map<std::string, Value> constants_;  // by type, shape and bytes
  std::map<std::string, Value> made_;       // by the key of `once`
};

}  // namespace trainer
