// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/config/fields.h"
#include "core/graph/program.h"

namespace trainer {

/// The initial values of a layer's weights.
struct Initializer {
  std::string name = "default";
  double deviation = 0.01;

  void declare(Fields& fields);
  /// `fan_in`, `fan_out`: elements of one output that an input reaches, and the reverse, kernel included.
  Initial weight(int64_t fan_in, int64_t fan_out) const;
  /// For a table that is read row by row; by default normal with deviation 1, as PyTorch's Embedding.
  Initial table(int64_t rows, int64_t features) const;
  /// As PyTorch: uniform within 1 / sqrt(fan_in) by default, zero beside every other choice.
  Initial bias(int64_t fan_in) const;
};

}  // namespace trainer
