// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/keys.h"

namespace trainer {

void TableKeys::declare(Fields& fields) {
  fields
      .add("target", &target,
           "column to predict: with loss cross_entropy its texts are classes, with mse, l1 or huber it has "
           "numbers. Several columns of numbers, or for binary_cross_entropy of 0 and 1")
      .or_one();
  fields.add("ignore", &ignore, "columns that the network does not read").or_one();
  fields
      .add("categorical", &categorical,
           "columns that have categories. auto: those with texts; names: these, and those with texts")
      .or_one()
      .absent_as("[auto]");
  fields
      .add("missing", &missing,
           "value in place of a missing number, of the training rows: mean, median; error: refuse it")
      .one_of({"mean", "median", "error"})
      .absent_as("mean");
  fields
      .add("scale", &scale,
           "scale of each column of numbers, from the training rows: standard: mean 0 and deviation 1; "
           "min_max: from 0 to 1")
      .one_of({"standard", "min_max", "none"})
      .absent_as("standard");
  fields
      .add("clip", &clip,
           "clip each column of numbers to the quantiles `clip` and 1 - `clip` of the training rows; 0: none")
      .at_least(0)
      .below(0.5)
      .absent_as("0");
  fields.add("empty_target", &empty_target, "rows without a target. error: refuse them; drop: leave them out")
      .one_of({"error", "drop"})
      .absent_as("error");
}

}  // namespace trainer
