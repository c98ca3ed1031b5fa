// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/data/format.h"
#include "core/data/images/decode.h"
#include "core/data/images/mix.h"
#include "core/data/images/transform.h"

namespace trainer {

/// Rows that are images: their transforms and their storage.
class ImageKind final : public RowKind {
 public:
  int64_t max_pixels = kMaxPixels;
  std::string cache = "none";              ///< or device
  bool stratify = true;                    ///< data.val_fraction takes its share of each class
  std::optional<FilePath> sample_weights;  ///< "balanced" or a file; null: each sample once in an epoch
  TransformList augment, eval_transform;
  TransformList corruption;  ///< of a reconstruction's input, not of its target
  Mix mix;

  void declare(Fields& fields) override;
  std::string name() const override { return "images"; }
  const TransformList& transform_list(Split split) const {
    return split == Split::train ? augment : eval_transform;
  }

  void check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
             Diagnostics& diagnostics) const override;

  std::unique_ptr<DataSource> take_split(std::unique_ptr<DataSource> source, const DataSection& section,
                                         const SourceRequest& request,
                                         const ErrorBudget* budget) const override;
  SourceInfo take_split(const SourceInfo& info, const DataSection& section,
                        const SourceRequest& request) const override;
};

}  // namespace trainer
