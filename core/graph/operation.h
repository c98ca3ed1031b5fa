// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mesh.h"
#include "core/graph/attribute.h"
#include "core/graph/builder.h"
#include "core/graph/channel_link.h"
#include "core/graph/program.h"
#include "core/graph/quantized_form.h"

namespace trainer {

/// Arguments of a gradient rule: the node, the gradient of each of its outputs (kNone: zero), and which of
/// its inputs need one.
struct Backward {
  Builder& build;
  const Node& node;
  std::vector<TensorId> dy;
  std::vector<bool> wanted;

  TensorId x(size_t i) const { return node.inputs[i]; }
  TensorId y(size_t i) const { return node.outputs[i]; }
  Shape shape(size_t i) const;
};

/// The element type that mixed precision gives to an input, as in PyTorch's autocast: products take the low
/// type; losses, statistics and optimisers f32; element-wise operations the widest type among such inputs.
/// `as_made` computes in f32 too, but is stored in the type in which it was made, if the device
/// reads that.
enum class InputType { low, f32, widest, as_made };

/// Inputs from `begin` to before `end`.
struct InputRange {
  size_t begin = 0, end = 0;
};

/// How ranks can share an operation by features, the last dimension of its first output: each computes an
/// equal part of each section of them.
struct FeatureCut {
  std::vector<size_t> inputs;  ///< whose features are cut too; every rank has the others as wholes
  /// Of each of these inputs, and of the output. Empty: all have the same sections, whatever these are.
  std::vector<std::vector<int64_t>> of_inputs = {};
  std::vector<int64_t> of_output = {};
  bool ends = false;  ///< the outputs have no features: of losses and metrics, whose classes are shared
};

/// What one of several ranks computes: some features of each row, or some rows, all dimensions but the last
/// counting these.
struct SharedPart {
  Along along;
  Shape whole;                    ///< of the operation's first output, or of its features if it ends them
  std::vector<int64_t> sections;  ///< of its features; empty: rows are shared
  int64_t rows = 0;               ///< of each rank, if rows are shared
};

/// A primitive operation: pure, without state. It has the rules for shapes, gradient and cost;
/// backends decide how it runs. Shapes that do not fit throw std::invalid_argument with the expected
/// shape; the caller adds the origin.
class Operation {
 public:
  virtual ~Operation() = default;

  virtual std::string_view name() const = 0;
  /// The number of inputs of each node; absent ones count and are kNone. An input keeps its position if
  /// others are absent. Nothing for operations that take a list.
  virtual std::optional<size_t> input_count() const { return std::nullopt; }
  /// Reports the operation's attributes, each once, without those that its name implies.
  virtual void describe(AttributeVisitor& /*visit*/) const {}
  /// An absent optional input has an empty shape.
  virtual std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const = 0;
  /// Called for floating point inputs only.
  virtual InputType input_type(size_t /*input*/) const { return InputType::f32; }
  /// One gradient per input, kNone only for inputs that need none: differentiation refuses missing ones.
  virtual std::vector<TensorId> gradient(const Backward& backward) const;
  /// Floating point operations of one run, a multiply-add counting as two.
  virtual double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const;
  /// Whether this output may be written over this input, element by element.
  virtual bool in_place(size_t input, size_t output) const;
  /// The inputs that in_place may accept for this output: fewer than all if there are very many.
  virtual InputRange in_place_inputs(size_t output, size_t inputs) const;
  /// Inputs that reproduce the node's first output bit for bit: its own, or fewer if another output, which
  /// exists then, replaces some of them.
  virtual std::vector<TensorId> inputs_again(const Node& node) const { return node.inputs; }
  /// Whether its first output may be discarded and made again.
  virtual bool may_run_again() const { return true; }
  /// Whether the output is the input's memory under another shape, and perhaps in another layout.
  virtual bool is_view() const { return false; }

  // Queries of passes, optimisers and generation, which have no list of operations.

  /// Of a loss: the input that it compares with targets, the network's output. Other operations have none.
  virtual std::optional<size_t> judged_input() const { return std::nullopt; }
  /// The input that is a table, of which whole rows are read: those of tokens or positions.
  virtual std::optional<size_t> table_input() const { return std::nullopt; }
  /// How it is computed in 8 bits after training; nothing: it is not.
  virtual std::optional<QuantizedForm> quantized_form(std::span<const TensorSpec> /*inputs*/) const {
    return std::nullopt;
  }
  /// Whether its first output has no negative values, given which inputs have none; false: not known.
  virtual bool is_non_negative(const std::vector<bool>& /*inputs*/) const { return false; }
  /// Whether a sample's outputs depend on the other samples that are computed at the same time.
  virtual bool has_batch_statistics() const { return false; }
  /// Whether ranks can share it by features; nothing: they cannot.
  virtual std::optional<FeatureCut> feature_cut(std::span<const TensorSpec> /*inputs*/) const { return {}; }
  /// Inputs with the rows of the first output, each row of which depends on the same row of these alone.
  /// Every rank needs the whole of the other inputs. Empty: ranks cannot share it by rows.
  virtual std::vector<size_t> row_inputs(std::span<const TensorSpec> /*inputs*/) const { return {}; }
  /// The operation that computes this part. Null: this one, on the inputs' parts. Throws
  /// std::invalid_argument if the features cannot be cut in such parts.
  virtual std::shared_ptr<const Operation> on_part(const SharedPart& /*part*/) const { return nullptr; }
  /// Whether each position of a sequence, (N, T, ...), is computed only from that position of the inputs, and
  /// from earlier ones in caches.
  virtual bool is_by_position(std::span<const TensorSpec> /*inputs*/,
                              std::span<const TensorSpec> /*outputs*/) const {
    return false;
  }
  /// Channels that can be removed from the network. Positions of operands that no link has are needed as they
  /// are, and so are all channels that other operations couple with them.
  virtual std::vector<ChannelLink> channel_links(std::span<const TensorSpec> /*inputs*/,
                                                 std::span<const TensorSpec> /*outputs*/) const {
    return {};
  }
};

/// Reports them as attributes.
void describe(AttributeVisitor& visit, const Along& along);

/// Throws std::invalid_argument(text) unless `holds`.
void expect(bool holds, const std::string& text);
/// Throws it unless there are this many inputs, absent ones included.
void expect_count(std::span<const TensorSpec> inputs, size_t count, const std::string& text);
void expect_count(std::span<const TensorSpec> inputs, size_t count);
/// Throws it unless those of the inputs `which` that are present have one element type, or the given one.
void expect_one_type(std::span<const TensorSpec> inputs, std::initializer_list<size_t> which);
void expect_type(std::span<const TensorSpec> inputs, std::initializer_list<size_t> which, DType dtype);

}  // namespace trainer
