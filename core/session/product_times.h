// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/engine/backend.h"
#include "core/quantization/int8_network.h"

namespace trainer {

/// Seconds of one run of a product in each type, and of the conversion of its input to bytes.
struct ProductTimes {
  double f32 = 0, int8 = 0, conversion = 0;
};
using TimesOfProducts = std::map<std::string, ProductTimes>;

/// Times each product of the entry `predict` that has a range, in turns in both types, with random values, on
/// a CPU. `program` must not be prepared yet. Calls `between` between products; what it throws ends the
/// timing.
TimesOfProducts time_products(const Program& program, const Int8Network& network, const Backend& backend,
                              const std::function<void()>& between);

/// Products that are slower in 8 bits, with the seconds of each form: those of 8 bits include the conversion
/// of the input, unless another product in 8 bits writes it as bytes. Products that read the same input share
/// it.
TimesOfProducts slower_products(const Program& program, const TimesOfProducts& times);

}  // namespace trainer
