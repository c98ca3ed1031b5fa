// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/format.h"
#include "core/data/images/kind.h"
#include "core/data/shuffle.h"
#include "core/data/subset.h"
#include "core/data/tables/kind.h"
#include "core/data/tokens/kind.h"

namespace trainer {

constexpr int64_t kMostWorkers = 64;

/// The recipe's `data` section.
struct DataSection {
  std::string format = "idx";
  FilePath train;
  std::optional<FilePath> val = FilePath();  ///< null: no validation, also of made-up samples
  double val_fraction = 0;                   ///< of the samples of `train`; 0: `val` names them
  int64_t folds = 0, fold = 0;               ///< of the samples of `train`, one for validation; 0: no folds
  std::optional<std::string> split_by;       ///< a column: samples with the same value stay together
  std::optional<FilePath> exclude;           ///< a file that names samples to leave out (core/data/exclude.h)
  double error_budget = 0.1;                 ///< percent of a split's samples
  std::optional<AutoCount> workers = AutoCount{};
  int64_t prefetch = 2;
  bool drop_last = true;
  std::unique_ptr<Shuffle> shuffle = shuffles().front().make();
  ImageKind images;
  TokenKind tokens;
  FeatureKind features;
  TextKind row_texts;
  SeriesKind series;

  DataSection();
  /// The recipe's number or, if it is auto, `automatic`.
  int64_t worker_count(int64_t automatic) const {
    return workers && workers->count ? *workers->count : automatic;
  }
  void declare(Fields& fields);

  /// Reports errors that can be found without samples, for a network that reads this kind and shape, which
  /// the format provides. `resolved` has all keys in canonical form.
  void check(InputKind kind, const Shape& shape, const Value& resolved, const OriginOf& origin_of,
             Diagnostics& diagnostics) const;

  /// Settles paths once all keys are read: if several files may be named, each is a path; see
  /// DataFormat::settle.
  void settle_paths();

  const DataFormat& chosen_format() const;
  /// Sets data.labels to a file in the folder of train.
  void use_labels(const std::string& name);
  /// The common properties of rows for a network that reads `kind`.
  const RowKind& rows(InputKind kind) const;

  /// Whether validation is a part of the samples of `train`.
  bool divides_train() const { return val_fraction > 0 || folds > 0; }
  SplitChoice split_choice(Split split, uint64_t seed) const {
    return {.split = split, .fraction = val_fraction, .seed = seed, .folds = folds, .fold = fold};
  }
  /// Where a split's samples are; if train is divided, both are taken from the same.
  std::string path(Split split) const {
    return split == Split::train || divides_train() ? train.resolved : val.value_or("").resolved;
  }

 private:
  std::vector<std::unique_ptr<DataFormat>> formats_;  // one for each row of the table
};

}  // namespace trainer
