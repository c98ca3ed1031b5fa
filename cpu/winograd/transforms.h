// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/winograd/kernels.h"
#include "cpu/winograd/points.h"

namespace trainer::cpu::winograd {

/// kIn x kIn values -> kOut x kOut: `one` along columns, then along rows. Calls column(j, values) for kIn
/// columns, and put(i, values) with kOut rows.
template <class Isa, int kIn, int kOut, class One, class Column, class Put>
TRAINER_INLINE void both_ways(const One& one, const Column& column, const Put& put) {
  using V = Vector<Isa>;
  V half[kOut][kIn];
  TRAINER_UNROLL
  for (int j = 0; j < kIn; ++j) {
    V in[kIn], out[kOut];
    column(j, in);
    one(in, out);
    TRAINER_UNROLL
    for (int i = 0; i < kOut; ++i) half[i][j] = out[i];
  }
  TRAINER_UNROLL
  for (int i = 0; i < kOut; ++i) {
    V out[kOut];
    one(half[i], out);
    put(i, out);
  }
}

/// Calls body(number from 0, image, row, column) for each tile.
template <class Body>
TRAINER_INLINE void each_tile(const Grid& grid, Tiles tiles, const Body& body) {
  int64_t column = tiles.begin % grid.columns, row = tiles.begin / grid.columns % grid.rows;
  int64_t image = tiles.begin / grid.columns / grid.rows;
  for (int64_t t = 0; t < tiles.count; ++t) {
    body(t, image, row, column);
    if (++column < grid.columns) continue;
    column = 0;
    if (++row < grid.rows) continue;
    row = 0;
    ++image;
  }
}

/// kSize x kSize pixels of an image, from (top, left) on; zero outside of it.
template <class Isa, class Stored, int kSize>
class Pixels {
  using Element = typename Stored::Element;

 public:
  Pixels(const Grid& grid, const Element* image, int64_t top, int64_t left)
      : line_(grid.width * Isa::kLanes), left_(left), width_(grid.width) {
    inside_ = top >= 0 && left >= 0 && top + kSize <= grid.height && left + kSize <= grid.width;
    if (inside_) first_ = image + top * line_ + left * Isa::kLanes;
    for (int i = 0; i < kSize && !inside_; ++i) {
      const bool exists = top + i >= 0 && top + i < grid.height;
      rows_[i] = exists ? image + (top + i) * line_ : kZeros;
      step_[i] = exists ? Isa::kLanes : 0;
    }
  }

  /// Calls use(column); column(j, values) gives kSize pixels of column j.
  template <class Use>
  TRAINER_INLINE void visit(const Use& use) const {
    using V = Vector<Isa>;
    if (inside_) {
      use([this](int j, V* values) {
        TRAINER_UNROLL
        for (int i = 0; i < kSize; ++i)
          values[i] = Stored::template get<Isa>(first_ + i * line_ + j * Isa::kLanes);
      });
      return;
    }
    use([this](int j, V* values) {
      const int64_t at = left_ + j;
      const bool exists = at >= 0 && at < width_;
      TRAINER_UNROLL
      for (int i = 0; i < kSize; ++i)
        values[i] = exists ? Stored::template get<Isa>(rows_[i] + at * step_[i]) : V{};
    });
  }

 private:
  alignas(64) static constexpr Element kZeros[Isa::kLanes] = {};
  int64_t line_, left_, width_;
  bool inside_;
  const Element* first_ = nullptr;
  const Element* rows_[kSize] = {};
  int64_t step_[kSize] = {};
};

/// Writes row i of the positions of a tile.
template <class Isa>
TRAINER_INLINE void put_row(float* tile, int64_t stride, int i, const Vector<Isa>* values) {
  TRAINER_UNROLL
  for (int j = 0; j < kWindow; ++j) store<Isa>(tile + (i * kWindow + j) * stride, values[j]);
}

template <class Isa, class Stored>
void transform_x(const Grid& grid, const void* x, Tiles tiles, Positions v) {
  using V = Vector<Isa>;
  each_tile(grid, tiles, [&](int64_t t, int64_t image, int64_t row, int64_t column) {
    const auto* of_image = static_cast<const typename Stored::Element*>(x) + image * grid.stride;
    const Pixels<Isa, Stored, kWindow> pixels(grid, of_image, row * kTile - grid.top,
                                              column * kTile - grid.left);
    float* to = v.data + t * Isa::kLanes;
    pixels.visit([&](const auto& pixel_column) {
      both_ways<Isa, kWindow, kWindow>([](const V* in, V* out) { Points<Isa>::data(in, out); }, pixel_column,
                                       [&](int i, const V* out) { put_row<Isa>(to, v.stride, i, out); });
    });
  });
}

template <class Isa, class Stored>
void transform_dy(const Grid& grid, const void* dy, Tiles tiles, Positions v, float* sums) {
  using V = Vector<Isa>;
  V sum = {};
  each_tile(grid, tiles, [&](int64_t t, int64_t image, int64_t row, int64_t column) {
    const auto* of_image = static_cast<const typename Stored::Element*>(dy) + image * grid.stride;
    const Pixels<Isa, Stored, kTile> pixels(grid, of_image, row * kTile, column * kTile);
    float* to = v.data + t * Isa::kLanes;
    V of_tile = {};
    pixels.visit([&](const auto& pixel_column) {
      both_ways<Isa, kTile, kWindow>([](const V* in, V* out) { Points<Isa>::gradients(in, out); },
                                     [&](int j, V* values) {
                                       pixel_column(j, values);
                                       of_tile += (values[0] + values[1]) + (values[2] + values[3]);
                                     },
                                     [&](int i, const V* out) { put_row<Isa>(to, v.stride, i, out); });
    });
    sum += of_tile;
  });
  if (sums != nullptr) store<Isa>(sums, load<Isa>(sums) + sum);
}

template <class Isa, class Stored>
void transform_w(const void* w, bool reversed, Positions u, int64_t row) {
  using V = Vector<Isa>;
  constexpr int kLanes = Isa::kLanes, kAll = kTaps * kTaps;
  V taps[kAll][kLanes];
  for (int tap = 0; tap < kAll; ++tap) {
    const auto* from =
        static_cast<const typename Stored::Element*>(w) + (reversed ? kAll - 1 - tap : tap) * kLanes * kLanes;
    for (int i = 0; i < kLanes; ++i) taps[tap][i] = Stored::template get<Isa>(from + i * kLanes);
    if (reversed) transpose<Isa>(taps[tap]);
  }
  for (int in = 0; in < kLanes; ++in) {
    both_ways<Isa, kTaps, kWindow>(
        [](const V* g, V* out) { Points<Isa>::taps(g, out); },
        [&](int j, V* values) {
          TRAINER_UNROLL
          for (int i = 0; i < kTaps; ++i) values[i] = taps[i * kTaps + j][in];
        },
        [&](int i, const V* out) { put_row<Isa>(u.data + in * row, u.stride, i, out); });
  }
}

/// Reads column j of the positions of a tile.
template <class Isa>
TRAINER_INLINE void get_column(const float* tile, int64_t stride, int j, Vector<Isa>* values) {
  TRAINER_UNROLL
  for (int i = 0; i < kWindow; ++i) values[i] = load<Isa>(tile + (i * kWindow + j) * stride);
}

template <class Isa, class Stored>
void transform_y(const Grid& grid, Positions m, Tiles tiles, const After& after, void* y) {
  using V = Vector<Isa>;
  const V shift = after.bias != nullptr ? load<Isa>(after.bias) : V{};
  each_tile(grid, tiles, [&](int64_t t, int64_t image, int64_t row, int64_t column) {
    const float* from = m.data + t * Isa::kLanes;
    const int64_t top = row * kTile, left = column * kTile;
    const int64_t rows = grid.height - top, columns = grid.width - left;
    auto* to = static_cast<typename Stored::Element*>(y) + image * grid.stride +
               (top * grid.width + left) * Isa::kLanes;
    both_ways<Isa, kWindow, kTile>([](const V* in, V* out) { Points<Isa>::results(in, out); },
                                   [&](int j, V* values) { get_column<Isa>(from, m.stride, j, values); },
                                   [&](int i, V* out) {
                                     if (i >= rows) return;
                                     TRAINER_UNROLL
                                     for (int j = 0; j < kTile; ++j) {
                                       if (j >= columns) break;
                                       auto* pixel = to + (i * grid.width + j) * Isa::kLanes;
                                       V value = out[j] + shift;
                                       if (after.adds) value += Stored::template get<Isa>(pixel);
                                       if (after.relu) value = value < V{} ? V{} : value;
                                       Stored::template put<Isa>(pixel, value);
                                     }
                                   });
  });
}

template <class Isa>
void transform_dw(const float* m, int64_t position, int64_t row, int64_t parts, int64_t part_stride,
                  float* dw) {
  using V = Vector<Isa>;
  constexpr int kLanes = Isa::kLanes;
  for (int in = 0; in < kLanes; ++in) {
    const float* from = m + in * row;
    both_ways<Isa, kWindow, kTaps>([](const V* sums, V* out) { Points<Isa>::tap_gradients(sums, out); },
                                   [&](int j, V* values) {
                                     get_column<Isa>(from, position, j, values);
                                     for (int64_t part = 1; part < parts; ++part) {
                                       V more[kWindow];
                                       get_column<Isa>(from + part * part_stride, position, j, more);
                                       TRAINER_UNROLL
                                       for (int i = 0; i < kWindow; ++i) values[i] += more[i];
                                     }
                                   },
                                   [&](int i, const V* out) {
                                     TRAINER_UNROLL
                                     for (int j = 0; j < kTaps; ++j)
                                       store<Isa>(dw + ((i * kTaps + j) * kLanes + in) * kLanes, out[j]);
                                   });
  }
}

}  // namespace trainer::cpu::winograd
