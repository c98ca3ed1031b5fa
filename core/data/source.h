// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/shape.h"
#include "core/data/image.h"

namespace trainer {

enum class Split { train, val };

/// What is known of a source before its samples are loaded.
struct SourceInfo {
  int64_t size = 0;                ///< samples
  Shape shape;                     ///< of one sample, (C, H, W)
  std::optional<int64_t> classes;  ///< unknown where only reading every label would tell
  int64_t resident_bytes = 0;      ///< host memory that the opened source will hold
};

/// Samples by number. Everything here may be called from several threads at once.
class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual int64_t size() const = 0;
  virtual Shape sample_shape() const = 0;  ///< (C, H, W)
  virtual int64_t classes() const = 0;     ///< the highest label plus one
  virtual void read(int64_t index, Image& into) const = 0;
  virtual int64_t resident_bytes() const = 0;
  /// Throws Error (exit 65) naming file and offset of the first label that is not below `classes`.
  virtual void check_labels(int64_t classes) const = 0;
};

}  // namespace trainer
