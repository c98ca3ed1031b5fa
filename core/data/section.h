// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/data/images/decode.h"
#include "core/data/images/mix.h"
#include "core/data/images/transform.h"
#include "core/data/source.h"
#include "core/graph/names.h"

namespace trainer {

class Texts;

/// The recipe's `data` section.
struct DataSection {
  std::string format = "idx";
  InputKind kind = InputKind::pixels;  ///< what the network reads; not a key
  FilePath train;
  std::optional<FilePath> val = FilePath();  ///< null: no validation, also of made-up samples
  double val_fraction = 0;                   ///< of the samples of `train`; 0: `val` names them
  double error_budget = 0.1;                 ///< percent of a split's samples
  std::optional<std::string> labels;         ///< a CSV file below each of train and val
  int64_t max_pixels = kMaxPixels;
  int64_t workers = 1, prefetch = 2;
  bool drop_last = true;
  std::string cache = "none";  ///< or device
  std::string token_type = "uint16";
  std::optional<FilePath> tokenizer;  ///< or "bytes", which is what a text has without it
  std::optional<int64_t> end_of_text;
  bool mask_documents = false;   ///< tokens of a stream do not see those of other documents
  std::shared_ptr<Texts> texts;  ///< what has been tokenized already; not a key
  TransformList augment, eval_transform;
  Mix mix;
  int64_t synthetic_train_samples = 6400, synthetic_val_samples = 1280;

  DataSection();
  void declare(Fields& fields);

  /// Reports what can be known without the samples; `origin` is the section's own.
  void check(const Origin& origin, Diagnostics& diagnostics) const;

  void check_labels(const Origin& origin, Diagnostics& diagnostics) const;

  /// Where several files may be named, each is a path.
  void resolve_lists();

  /// Where a split's samples are; with val_fraction both are taken from the same.
  std::string path(Split split) const {
    return split == Split::train || val_fraction > 0 ? train.resolved : val.value_or("").resolved;
  }
  const TransformList& transform_list(Split split) const {
    return split == Split::train ? augment : eval_transform;
  }
};

}  // namespace trainer
