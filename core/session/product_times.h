// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/engine/backend.h"
#include "core/quantization/int8_network.h"

namespace trainer {

/// Seconds of one run of a product in each type. In 8 bits it also converts its input from f32.
struct ProductTimes {
  double f32 = 0, int8 = 0;
};

/// Times each product of the entry `predict` that has a range, in turns in both types, with random values, on
/// a CPU. `program` must not be prepared yet. Calls `between` between products; what it throws ends the
/// timing.
std::map<std::string, ProductTimes> time_products(const Program& program, const Int8Network& network,
                                                  const Backend& backend,
                                                  const std::function<void()>& between);

}  // namespace trainer
