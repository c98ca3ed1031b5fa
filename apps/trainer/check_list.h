// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/source.h"

namespace trainer {

/// A sample that `data check` reports.
struct CheckedSample {
  Split side = Split::train;    ///< of the split
  Split stored = Split::train;  ///< in whose files it is: with data.val_fraction all are in those of training
  std::string name;             ///< as data.exclude names it

  /// "val shirts/003.png"
  std::string text() const;
  Json json() const;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the operator's result for a pointer
  auto operator<=>(const CheckedSample&) const = default;
};

/// How data.exclude names a sample of images or of a table. `id`: a table's column that names its rows, or
/// empty.
std::string exclude_name(const DataSource& source, int64_t index, const std::string& id);

/// One kind of mistake that `data check` looks for, with what was found. Other kinds of data have lists of
/// their own.
struct CheckList {
  struct Row {
    std::string text;
    Json json;
    std::vector<CheckedSample> left_out;  ///< those that `--write` names
  };
  std::string key;    ///< in JSON
  std::string title;  ///< and what was done, for a reader
  std::vector<Row> rows = {};
};

/// Equal samples. One is kept: one for validation if there is one, so that training does not see it.
CheckList::Row row_of_copies(std::vector<CheckedSample> samples);
/// Equal samples with different labels, each as a text or empty. None is kept.
CheckList::Row row_of_contradiction(const std::vector<CheckedSample>& samples,
                                    const std::vector<std::string>& labels);
/// The list of these as JSON.
Json json_of(const std::vector<CheckedSample>& samples);
/// The samples to leave out: all of several equal ones but the first.
std::vector<CheckedSample> all_but_one(std::vector<CheckedSample> samples);

/// What `data check` found in the data of a recipe.
struct CheckedData {
  int64_t train = 0, val = 0;        ///< samples
  std::vector<std::string> columns;  ///< of a table, that were compared
  std::vector<CheckList> lists;
};

}  // namespace trainer
