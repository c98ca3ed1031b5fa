// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/names.h"
#include "core/layers/layer.h"

namespace trainer {

/// The recipe's `model` section: a list of layers that make a directed acyclic graph.
struct Network {
  FilePath file;                         ///< `model.network`; its keys have been read into the others
  std::optional<std::string> templates;  ///< `model.templates`; they have been written out into the layers
  std::vector<int64_t> input;            ///< shape of one sample, as its kind says
  std::string input_kind = "pixels";
  int64_t categories = 0;  ///< columns of categories, which make the second input of `features`
  std::vector<std::unique_ptr<Layer>> layers;
  std::optional<int64_t> num_classes;  ///< outputs of the head; it has been written into that layer
  std::optional<FilePath> initial_weights;
  std::vector<std::string> replace;  ///< patterns of names that initial_weights does not set
  std::vector<std::string> freeze;   ///< patterns of names that training leaves unchanged

  /// Writes out templates and `num_classes` of a `model` section, or of a network's file, before its keys are
  /// read.
  static void write_out(Value& model, const std::string& path, Reading& reading);
  void declare(Fields& fields);
  /// Reports names that are used twice, unknown inputs, and layers with too few or too many of them.
  void check(Diagnostics& diagnostics) const;

  InputKind kind() const;
  /// Declares the inputs that the data's kind has, for this many samples. Throws TooLarge.
  std::vector<TensorId> declare_inputs(Program& program, int64_t samples) const;

  /// Throws Error (exit 78) at the name of the layer that has a tensor of this name, which is another one's
  /// too.
  void refuse_name(const std::string& tensor) const;
  /// A layer's name in parameters and messages: its own, or its number.
  std::string layer_name(size_t index) const;

  /// The layer that determines the number of outputs: the last one with a width of its own.
  std::optional<size_t> head() const;
  /// The names that weights would have in other layers that use them, with their own.
  std::map<std::string, std::string> tied_weights() const;
  /// A pattern of the names of a layer's parameters.
  std::string parameters_of(size_t index) const { return layer_name(index) + ".*"; }

  /// Writes the forward part for the inputs `x`, which layers name "input" (the first) and "input:NUMBER".
  /// Returns each layer's first output. Shapes that do not fit throw Error (exit 78) at the layer.
  std::vector<TensorId> build(LayerContext context, const std::vector<TensorId>& x) const;

 private:
  /// A layer's input: an output of an earlier layer, or one of the network's inputs.
  struct Source {
    size_t layer = 0, output = 0;
  };
  /// Positions of layers by their names, each name's in order.
  using Positions = std::map<std::string, std::vector<size_t>>;
  Positions positions() const;
  /// The source that "NAME", "NAME:OUTPUT", "input" or "input:NUMBER" names for a layer after `before`
  /// others.
  static std::optional<Source> find_source(const Positions& known, const std::string& wanted, size_t before);
  std::vector<Source> sources(const Positions& known, size_t index) const;
};

}  // namespace trainer
