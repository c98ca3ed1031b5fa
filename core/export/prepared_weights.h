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

/// What a program makes of its weights before anything else, for files that hold it in their place:
/// normalisations folded into weights (FoldBatchNorm), integers and their scales (QuantizeWeights).
class PreparedWeights {
 public:
  /// Gives the values of a parameter or state, row-major.
  using Read = std::function<std::vector<float>(const std::string& name)>;
  /// Numbers are f32; of integers they are scale * integer. One number: the first of several equal ones.
  enum class Form { numbers, one_number, integers };

  /// Whether readers may round a product's bias to whole multiples of both scales' product, in 32 bits, as
  /// onnxruntime does: then scales are not so small that it would overflow, and integers are of these scales.
  enum class Biases { any, of_32_bits };

  PreparedWeights(Program program, Biases biases);

  /// The node that makes such a tensor; nullptr for others.
  const Node* maker_of(TensorId tensor) const;
  /// Names such a tensor.
  void add(const std::string& name, TensorId tensor, Form form) { named_[name] = {tensor, form}; }
  bool has(const std::string& name) const { return named_.contains(name); }
  /// Gives the bytes of a named tensor.
  void copy(const std::string& name, const Read& read, const ByteSink& sink) const;
  /// The name of the weights that a tensor is made of, without what is folded into them.
  const std::string& parameter_of(TensorId tensor) const;
  /// Whether a tensor is this source, or made of it.
  bool is_made_of(TensorId tensor, TensorId source) const;

 private:
  struct Named {
    TensorId tensor;
    Form form;
  };
  /// The values of QuantizeWeights.
  struct Integers {
    std::vector<int8_t> integers;
    std::vector<float> scales;
  };

  /// The bias that is added to a product of integers, and the scale of what they are multiplied with.
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
