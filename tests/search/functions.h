// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/search/space.h"

namespace trainer {

/// A function to minimise. The minimum is 0.
struct SearchFunction {
  std::string name;
  Space space;
  std::function<double(const Setting&)> value;
};

/// Those of scripts/fixtures/search_functions.py.
std::vector<SearchFunction> search_functions();

/// A range of reals or integers, and a choice.
Dimension real(const std::string& name, double low, double high, bool logarithmic = false);
Dimension integer(const std::string& name, double low, double high, bool logarithmic = false);
Dimension choice(const std::string& name, int64_t choices);
/// The same dimension, which exists only if an earlier choice has one of these indices.
Dimension only_if(Dimension dimension, size_t choice, const std::vector<int64_t>& indices);

}  // namespace trainer
