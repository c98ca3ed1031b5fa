// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/weight_bits.h"
#include "core/graph/program.h"
#include "core/storage/atomic_file.h"

namespace trainer {

/// Weights that an exported file holds in place of the trained ones: with batch normalisation folded in
/// (FoldBatchNorm), or as integers with scales (QuantizeWeights).
class PreparedWeights {
 public:
  /// Gives the values of a parameter or state, row-major.
  using Read = std::function<std::vector<float>(const std::string& name)>;
  /// Numbers are f32: for integers, scale * integer. One number: the first, where all scales are equal.
  enum class Form { numbers, one_number, integers };

  /// onnxruntime rounds a bias to 32 bits, in multiples of both scales' product. With `of_32_bits`, scales
  /// are large enough for that, and integers are rounded to these scales.
  enum class Biases { any, of_32_bits };

  PreparedWeights(Program program, Biases biases);

  /// The node that computes a tensor; nullptr for trained weights.
  const Node* maker_of(TensorId tensor) const;
  /// Gives a computed tensor its name in the file.
  void add(const std::string& name, TensorId tensor, Form form) { named_[name] = {tensor, form}; }
  bool has(const std::string& name) const { return named_.contains(name); }
  /// Gives the bytes of a named tensor.
  void copy(const std::string& name, const Read& read, const ByteSink& sink) const;
  /// The name of the parameter that a tensor is computed from, without what is folded into it.
  const std::string& parameter_of(TensorId tensor) const;
  /// Whether a tensor is `source`, or computed from it.
  bool is_made_of(TensorId tensor, TensorId source) const;

 private:
  struct Named {
    TensorId tensor;
    Form form;
  };
  /// What QuantizeWeights computes.
  struct Integers {
    std::vector<int8_t> integers;
    std::vector<float> scales;
  };

  /// The bias of a product, and the scale of its input.
  struct Beside {
    TensorId bias;
    double scale;
  };

  std::vector<float> numbers(TensorId tensor, const Read& read) const;
  std::vector<float> folded(const Node& node, size_t output, const Read& read) const;
  Integers integers(const Node& node, const Read& read) const;
  void make_room_for_biases(const Beside& beside, const std::vector<float>& weights,
                            const WeightLevels& levels, const Read& read, Integers& made) const;

  Program program_;
  Biases biases_;
  std::map<TensorId, Node> makers_;
  std::map<TensorId, Beside> beside_;  ///< by integers
  std::map<std::string, Named> named_;
};

}  // namespace trainer
