// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

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

  explicit PreparedWeights(Program program);

  /// The node that makes such a tensor; nullptr for others.
  const Node* maker_of(TensorId tensor) const;
  /// Names such a tensor.
  void add(const std::string& name, TensorId tensor, Form form) { named_[name] = {tensor, form}; }
  bool has(const std::string& name) const { return named_.contains(name); }
  /// Gives the bytes of a named tensor.
  void copy(const std::string& name, const Read& read, const ByteSink& sink) const;
  /// The name of the parameter that a tensor is made of.
  const std::string& parameter_of(TensorId tensor) const;

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

  std::vector<float> numbers(TensorId tensor, const Read& read) const;
  std::vector<float> folded(const Node& node, size_t output, const Read& read) const;
  Integers integers(const Node& node, const Read& read) const;

  Program program_;
  std::map<TensorId, Node> makers_;
  std::map<std::string, Named> named_;
};

}  // namespace trainer
