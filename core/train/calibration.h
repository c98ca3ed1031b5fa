// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/data/pipeline.h"
#include "core/engine/executable.h"
#include "core/quantization/ranges.h"

namespace trainer {

/// The inputs of a network's products, by the name of their weights, over all batches of one pass.
struct ObservedInputs {
  InputRanges extremes;
  std::map<std::string, ValueCounts> counts;  ///< only within ranges that were given
};

/// Runs the entry `predict` over all batches, whose rows must all hold samples. Its products are observed
/// (step/quantized_products.h) within these ranges. Throws Error (exit 65) with the product and the batch if
/// an input has NaN or infinite values. Calls `between` between batches; what it throws ends the pass.
ObservedInputs observe_inputs(Executable& executable, DataPipeline& data, const RangeObservation& observation,
                              const std::function<void()>& between);

}  // namespace trainer
