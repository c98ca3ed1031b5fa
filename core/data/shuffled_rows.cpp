// SPDX-License-Identifier: Apache-2.0
#include "core/data/shuffled_rows.h"

#include <utility>

#include "core/data/order.h"

namespace trainer {
namespace {

class ShuffledRows final : public RowReader {
 public:
  ShuffledRows(std::unique_ptr<RowReader> rows, uint64_t seed, int64_t size)
      : rows_(std::move(rows)), seed_(seed), size_(size) {}

  std::unique_ptr<RowMemory> make_memory() const override { return rows_->make_memory(); }

  void read(const RowPlace& place, const Batch& batch, int64_t row, RowMemory& memory) const override {
    RowPlace drawn = place;
    if (place.sample != RowPlace::kPadding) drawn.sample = shuffled_index(seed_, 0, place.sample, size_);
    rows_->read(drawn, batch, row, memory);
  }

 private:
  std::unique_ptr<RowReader> rows_;
  uint64_t seed_;
  int64_t size_;
};

}  // namespace

std::unique_ptr<RowReader> shuffle_rows(std::unique_ptr<RowReader> rows, uint64_t seed, int64_t size) {
  return std::make_unique<ShuffledRows>(std::move(rows), seed, size);
}

}  // namespace trainer
