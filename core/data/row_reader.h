// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/error.h"
#include "core/data/batch.h"
#include "core/data/order.h"
#include "core/data/source.h"

namespace trainer {

struct DataSection;

/// The rows to make of a source's samples.
struct RowRequest {
  const DataSection& section;
  Split split;
  Shape network_shape;                        ///< one sample as the network takes it
  Origin network_origin;                      ///< of the key that says so
  BatchInputs inputs;                         ///< of the batches
  const TrainingBatches* training = nullptr;  ///< null: one pass in the stored order
};

/// A thread's own memory for making rows. It is kept from row to row, so that none allocates.
class RowMemory {
 public:
  virtual ~RowMemory() = default;
};

/// Fills the rows of batches from samples: images, later tokens and tables. A row is a pure function of its
/// place. Called from several threads at once, each with memory of its own.
class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual std::unique_ptr<RowMemory> make_memory() const = 0;
  /// Tells that `count` samples from `first` on will be read, so that a disk may read them in one piece.
  virtual void expect(int64_t /*first*/, int64_t /*count*/) const {}
  /// Fills row `row` of the inputs that hold the sample; the others are the caller's. Throws
  /// UnreadableSampleError in place of a sample that cannot be read.
  virtual void read(const RowPlace& place, const Batch& batch, int64_t row, RowMemory& memory) const = 0;
};

}  // namespace trainer
