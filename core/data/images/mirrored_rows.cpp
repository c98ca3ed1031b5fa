// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/mirrored_rows.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/graph/names.h"

namespace trainer {
namespace {

class MirroredRows final : public RowReader {
 public:
  MirroredRows(std::unique_ptr<RowReader> rows, size_t images, const BatchInput& input)
      : rows_(std::move(rows)),
        images_(images),
        width_(input.row.back()),
        lines_(numel(input.row) / width_),
        is_bytes_(input.dtype == DType::u8) {}

  std::unique_ptr<RowMemory> make_memory() const override { return rows_->make_memory(); }

  void read(const RowPlace& place, const Batch& batch, int64_t row, RowMemory& memory) const override {
    rows_->read(place, batch, row, memory);
    is_bytes_ ? mirror(batch.row<uint8_t>(images_, row)) : mirror(batch.row<float>(images_, row));
  }

 private:
  template <class T>
  void mirror(T* pixels) const {
    for (int64_t line = 0; line < lines_; ++line, pixels += width_) std::reverse(pixels, pixels + width_);
  }

  std::unique_ptr<RowReader> rows_;
  size_t images_;
  int64_t width_, lines_;
  bool is_bytes_;
};

}  // namespace

std::unique_ptr<RowReader> mirror_rows(std::unique_ptr<RowReader> rows, const BatchInputs& inputs) {
  const std::optional<size_t> images = find_input(inputs, input_name::kImages);
  if (!images || inputs[*images].row.size() != 3) throw std::logic_error("only images are mirrored");
  return std::make_unique<MirroredRows>(std::move(rows), *images, inputs[*images]);
}

}  // namespace trainer
