// SPDX-License-Identifier: Apache-2.0
#include "core/engine/row_order.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace trainer {
namespace {

constexpr size_t kLeastPiece = size_t{64} << 10, kLargestPiece = size_t{1} << 20;  // in bytes
/// Adjacent elements of a blocked layout mostly belong to different rows: reading these together uses
/// whole cache lines.
constexpr size_t kRowsTogether = 16;

using RowSink = std::function<void(std::span<const std::byte>)>;

/// Calls visit(Unit{}) with the unsigned number of an element's size.
template <class Visit>
void with_element(int64_t bytes, Visit visit) {
  if (bytes == 1) return visit(uint8_t{});
  if (bytes == 2) return visit(uint16_t{});
  if (bytes == 4) return visit(uint32_t{});
  if (bytes == 8) return visit(uint64_t{});
  throw std::logic_error("an element of unknown size");
}

/// Positions of elements: each at the step of its first index plus the step of all others.
struct Rows {
  std::vector<int64_t> first, others;
};

Rows rows_of(const Layout& layout) {
  std::vector<std::vector<int64_t>> steps = dimension_steps(layout);
  Rows rows{std::move(steps[0]), {0}};
  for (size_t d = 1; d < steps.size(); ++d) {
    std::vector<int64_t> longer;
    for (const int64_t before : rows.others) {
      for (const int64_t step : steps[d]) longer.push_back(before + step);
    }
    rows.others = std::move(longer);
  }
  return rows;
}

template <class Unit>
void read_rows(const Unit* stored, const Rows& rows, const RowSink& sink) {
  constexpr size_t kColumns = 64;
  const size_t length = rows.others.size();
  const size_t row_bytes = length * sizeof(Unit);
  const size_t wanted = std::min(std::max(kRowsTogether, kLeastPiece / row_bytes), rows.first.size());
  const size_t together = std::clamp(kLargestPiece / row_bytes, size_t{1}, wanted);
  std::vector<Unit> piece(together * length);
  for (size_t row = 0; row < rows.first.size(); row += together) {
    const size_t count = std::min(together, rows.first.size() - row);
    for (size_t begin = 0; begin < length; begin += kColumns) {
      const size_t end = std::min(begin + kColumns, length);
      for (size_t r = 0; r < count; ++r) {
        const Unit* from = stored + rows.first[row + r];
        Unit* to = piece.data() + r * length;
        for (size_t c = begin; c < end; ++c) to[c] = from[rows.others[c]];
      }
    }
    sink(std::as_bytes(std::span(piece).first(count * length)));
  }
}

}  // namespace

void read_in_row_order(const std::byte* from, const Shape& shape, const Layout& layout, int64_t element,
                       const RowSink& sink) {
  if (layout.row_major()) return sink({from, static_cast<size_t>(numel(shape) * element)});
  with_element(element, [&](auto unit) {
    using Unit = decltype(unit);
    read_rows(reinterpret_cast<const Unit*>(from), rows_of(layout), sink);
  });
}

void write_in_row_order(std::span<const std::byte> rows, const Shape& shape, const Layout& layout,
                        int64_t element, std::byte* to) {
  if (static_cast<int64_t>(rows.size()) != numel(shape) * element)
    throw std::logic_error("a tensor gets a wrong number of bytes");
  if (layout.row_major()) {
    std::ranges::copy(rows, to);
    return;
  }
  std::memset(to, 0, static_cast<size_t>(stored_elements(layout, shape) * element));
  with_element(element, [&](auto unit) {
    using Unit = decltype(unit);
    const std::byte* from = rows.data();
    for_each_place(layout, shape, [&](int64_t place) {
      std::memcpy(to + place * static_cast<int64_t>(sizeof(Unit)), from, sizeof(Unit));
      from += sizeof(Unit);
    });
  });
}

}  // namespace trainer
