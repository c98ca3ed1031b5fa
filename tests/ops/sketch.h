// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "core/graph/builder.h"

namespace trainer {

/// How a test's numbers are drawn. `off_zero` keeps 0.1 away from zero, for kinks there; `distinct` are a
/// shuffled grid, so that no maximum is close to another value; `positive` are in [0.5, 1.5).
enum class Values { normal, off_zero, distinct, positive };

/// A small program under construction, with a value for each of its parameters and inputs.
class Sketch {
 public:
  explicit Sketch(uint64_t seed);
  Sketch(const Sketch&) = delete;
  Sketch& operator=(const Sketch&) = delete;

  Program program;
  std::map<std::string, std::vector<float>> values;

  Builder& build() { return build_; }
  RandomStream& random() { return random_; }
  TensorId parameter(const std::string& name, const Shape& shape, Values kind = Values::normal);
  TensorId input(const std::string& name, const Shape& shape, Values kind = Values::normal);
  TensorId integers(const std::string& name, int64_t count, int64_t below);
  TensorId integers(const std::string& name, const Shape& shape, int64_t below);

  /// Images of u8.
  TensorId pixels(const std::string& name, const Shape& shape);

  /// Makes x an output that is compared under this name.
  void output(const std::string& name, TensorId x);
  /// Ends the program with a loss with a different gradient for every element of x.
  void loss(TensorId x);

 private:
  std::vector<float> draw(int64_t count, Values kind);

  RandomStream random_;
  Builder build_;
};

}  // namespace trainer
