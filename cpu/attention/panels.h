// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/math.h"
#include "cpu/attention/kernels.h"
#include "cpu/vectors.h"

namespace trainer::cpu::attention {

/// exp of each lane.
template <class Isa>
TRAINER_INLINE Vector<Isa> exp(Vector<Isa> x) {
  float lanes[Isa::kLanes];
  store<Isa>(lanes, x);
#pragma omp simd
  for (int i = 0; i < Isa::kLanes; ++i) lanes[i] = math::exp(lanes[i]);
  return load<Isa>(lanes);
}

/// The keys that the lanes of one vector see.
template <class Isa>
struct Mask {
  typename Isa::Words first, end;

  TRAINER_INLINE explicit Mask(const Seen& seen, int64_t vector) {
    std::memcpy(&first, seen.first + vector * Isa::kLanes, sizeof first);
    std::memcpy(&end, seen.end + vector * Isa::kLanes, sizeof end);
  }
  /// `x` in the lanes that see the key, `otherwise` in the others.
  TRAINER_INLINE Vector<Isa> keep(int64_t key, Vector<Isa> x, Vector<Isa> otherwise) const {
    const auto index = static_cast<uint32_t>(key);
    const auto sees = (first <= index) & (end > index);
    return sees ? x : otherwise;
  }
};

/// Whether some lane may not see a key.
template <bool kMasks>
struct Masked {
  static constexpr bool kMasked = kMasks;
};

/// Calls body(key, Masked<>) for all keys.
template <class Body>
TRAINER_INLINE void for_each_key(int64_t keys, const Seen& seen, const Body& body) {
  int64_t key = 0;
  for (; key < seen.all_first && key < keys; ++key) body(key, Masked<true>{});
  for (; key < seen.all_end && key < keys; ++key) body(key, Masked<false>{});
  for (; key < keys; ++key) body(key, Masked<true>{});
}

template <class Isa>
TRAINER_INLINE bool soften_vector(Sums scores, int64_t keys, int64_t vector, const Seen& seen, float* largest,
                                  float* sum, float* shrink) {
  using V = Vector<Isa>;
  const Mask<Isa> mask(seen, vector);
  const int64_t lane = vector * Isa::kLanes;
  const V none = V{} - __builtin_inff(), before = load<Isa>(largest + lane);
  V top = before;
  for_each_key(
      keys, seen, [&](int64_t key, auto kind) __attribute__((always_inline)) {
        V score = load<Isa>(scores.data + key * scores.row + lane);
        if constexpr (kind.kMasked) score = mask.keep(key, score, none);
        top = score > top ? score : top;
      });
  V total = {};
  for_each_key(
      keys, seen, [&](int64_t key, auto kind) __attribute__((always_inline)) {
        float* at = scores.data + key * scores.row + lane;
        V p = exp<Isa>(load<Isa>(at) - top);  // NaN of a query that sees no key yet
        if constexpr (kind.kMasked) p = mask.keep(key, p, V{});
        total += p;
        store<Isa>(at, p);
      });
  const V same = V{} + 1, factor = before == top ? same : exp<Isa>(before - top);
  store<Isa>(sum + lane, load<Isa>(sum + lane) * factor + total);
  store<Isa>(largest + lane, top);
  store<Isa>(shrink + lane, factor);
  bool changed = false;
  for (int i = 0; i < Isa::kLanes; ++i) changed |= top[i] != before[i];
  return changed;
}

template <class Isa>
bool soften(Sums scores, int64_t keys, int64_t vectors, const Seen& seen, float* largest, float* sum,
            float* shrink) {
  bool changed = false;
  for (int64_t v = 0; v < vectors; ++v)
    changed |= soften_vector<Isa>(scores, keys, v, seen, largest, sum, shrink);
  return changed;
}

template <class Isa>
void scale(Sums rows, int64_t count, int64_t vectors, const float* factor) {
  for (int64_t v = 0; v < vectors; ++v) {
    const Vector<Isa> by = load<Isa>(factor + v * Isa::kLanes);
    for (int64_t r = 0; r < count; ++r) {
      float* at = rows.data + r * rows.row + v * Isa::kLanes;
      store<Isa>(at, load<Isa>(at) * by);
    }
  }
}

template <class Isa>
void weigh(Sums rows, int64_t count, int64_t vectors, Rows factors) {
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t v = 0; v < vectors * Isa::kLanes; v += Isa::kLanes) {
      float* at = rows.data + r * rows.row + v;
      store<Isa>(at, load<Isa>(at) * load<Isa>(factors.data + r * factors.row + v));
    }
  }
}

template <class Isa>
TRAINER_INLINE void differentiate_vector(Sums scores, Sums products, int64_t keys, int64_t vector,
                                         const Seen& seen, const float* log_sum, const float* delta,
                                         const Rows* kept) {
  using V = Vector<Isa>;
  const Mask<Isa> mask(seen, vector);
  const int64_t lane = vector * Isa::kLanes;
  const V offset = load<Isa>(log_sum + lane), mean = load<Isa>(delta + lane);
  for_each_key(
      keys, seen, [&](int64_t key, auto kind) __attribute__((always_inline)) {
        float *p_at = scores.data + key * scores.row + lane,
              *ds_at = products.data + key * products.row + lane;
        V p = exp<Isa>(load<Isa>(p_at) - offset), dp = load<Isa>(ds_at);
        V weighed = p;
        if (kept != nullptr) {
          const V factor = load<Isa>(kept->data + key * kept->row + lane);
          weighed *= factor;
          dp *= factor;
        }
        V ds = p * (dp - mean);
        if constexpr (kind.kMasked) {
          weighed = mask.keep(key, weighed, V{});
          ds = mask.keep(key, ds, V{});
        }
        store<Isa>(p_at, weighed);
        store<Isa>(ds_at, ds);
      });
}

template <class Isa>
void differentiate(Sums scores, Sums products, int64_t keys, int64_t vectors, const Seen& seen,
                   const float* log_sum, const float* delta, const Rows* kept) {
  for (int64_t v = 0; v < vectors; ++v)
    differentiate_vector<Isa>(scores, products, keys, v, seen, log_sum, delta, kept);
}

/// Squares of kLanes x kLanes, each transposed in registers.
template <class Isa>
void transpose_panel(Rows rows, int64_t count, int64_t width, Sums columns) {
  using V = Vector<Isa>;
  constexpr int kLanes = Isa::kLanes;
  for (int64_t row = 0; row < count; row += kLanes) {
    for (int64_t column = 0; column < width; column += kLanes) {
      V square[kLanes];
      for (int i = 0; i < kLanes; ++i)
        square[i] = row + i < count ? load<Isa>(rows.data + (row + i) * rows.row + column) : V{};
      transpose<Isa>(square);
      for (int i = 0; i < kLanes && column + i < width; ++i)
        store<Isa>(columns.data + (column + i) * columns.row + row, square[i]);
    }
  }
}

template <class Isa>
void transpose_back(Rows columns, int64_t count, int64_t width, const float* factor, Sums rows) {
  using V = Vector<Isa>;
  constexpr int kLanes = Isa::kLanes;
  for (int64_t row = 0; row < count; row += kLanes) {
    const V by = load<Isa>(factor + row);
    for (int64_t column = 0; column < width; column += kLanes) {
      V square[kLanes];
      for (int i = 0; i < kLanes; ++i)
        square[i] =
            column + i < width ? load<Isa>(columns.data + (column + i) * columns.row + row) * by : V{};
      transpose<Isa>(square);
      for (int i = 0; i < kLanes && row + i < count; ++i)
        store<Isa>(rows.data + (row + i) * rows.row + column, square[i]);
    }
  }
}

}  // namespace trainer::cpu::attention
