// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "apps/trainer/predicted_sample.h"

namespace trainer {

/// A form in which predictions are printed.
class PredictionFormat {
 public:
  virtual ~PredictionFormat() = default;
  /// The first line, or "".
  virtual std::string head() const { return ""; }
  /// With its line break.
  virtual std::string line(const PredictedSample& sample) const = 0;
};

/// What all lines have in common.
struct PredictionColumns {
  const std::vector<std::string>& class_names;
  bool has_files = false, has_labels = false, has_label_sets = false;
  std::vector<PredictedField> fields;  ///< of any sample, with those that --images adds
  size_t top = 0, classes = 0;         ///< of pairs; of lists with a number for each class
  size_t width = 0;                    ///< of a table
  size_t name_width = 0;               ///< of its first column
};

/// JSON Lines: an object for each sample.
std::unique_ptr<PredictionFormat> json_lines_format();
/// CSV as of RFC 4180, with a head.
std::unique_ptr<PredictionFormat> csv_format(PredictionColumns columns);
/// For people: columns that fit into `width`.
std::unique_ptr<PredictionFormat> table_format(PredictionColumns columns);

/// A class's name, or its number.
std::string class_text(int64_t number, const std::vector<std::string>& names);
/// A prediction in words: "cat 0.9812, dog 0.0122", with at most `most_classes` classes.
std::string prediction_text(const PredictedSample& sample, const std::vector<std::string>& names,
                            size_t most_classes = std::numeric_limits<size_t>::max());
/// The labels in words, or "".
std::string label_text(const PredictedSample& sample, const std::vector<std::string>& names);

}  // namespace trainer
