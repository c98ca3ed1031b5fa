// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trainer::cpu::attention {

/// The factor of a product with elements that go to all lanes: element (r, k) is at r * row + k * step.
struct Scalars {
  const float* data;
  int64_t row, step;
};

/// The factor that vectors are loaded from, and the product: row k is at k * row.
struct Rows {
  const float* data;
  int64_t row;
};
struct Sums {
  float* data;
  int64_t row;
};

/// The keys that each lane's query sees, from the first key of a block of scores on: lane l those in
/// [first[l], end[l]), every lane those in [all_first, all_end).
struct Seen {
  const int32_t *first, *end;
  int64_t all_first, all_end;
};

/// The loops, compiled for one instruction set. Queries are the lanes of a panel of two vectors, so that each
/// query's mask, maximum and sum are computed lane by lane. A block of scores is [key][lane]. Pointers are
/// aligned to 4 bytes only.
struct Kernels {
  const char* name;
  int64_t lanes;  ///< of a vector

  /// c[r][lane] = (or, if `add`, +=) sum over k < depth of a(r, k) * b[k][lane], for `rows` rows and
  /// `vectors` vectors.
  void (*multiply)(Scalars a, int64_t rows, Rows b, int64_t vectors, int64_t depth, bool add, Sums c);
  /// `count` rows of `width` -> `width` rows of lanes; lanes beyond `count` up to the next whole vector
  /// become zero. The rows have room for whole vectors, too.
  void (*transpose)(Rows rows, int64_t count, int64_t width, Sums columns);
  /// The reverse, each row times its lane's factor.
  void (*transpose_back)(Rows columns, int64_t count, int64_t width, const float* factor, Sums rows);
  /// Scores of some keys -> p = exp(score - largest), zero if a lane does not see the key. Updates each
  /// lane's largest score so far and its sum of p; `shrink` is the factor for earlier sums of that lane.
  /// Returns whether a largest score changed.
  bool (*soften)(Sums scores, int64_t keys, int64_t vectors, const Seen& seen, float* largest, float* sum,
                 float* shrink);
  /// rows[r][lane] *= factor[lane].
  void (*scale)(Sums rows, int64_t count, int64_t vectors, const float* factor);
  /// rows[r][lane] *= factors[r][lane].
  void (*weigh)(Sums rows, int64_t count, int64_t vectors, Rows factors);
  /// Scores and dy . v of some keys -> f * p and ds = p * (f * dy . v - delta), with p = exp(score - log_sum)
  /// and f the factor of dropout (null: 1). Both are zero if a lane does not see the key.
  void (*differentiate)(Sums scores, Sums products, int64_t keys, int64_t vectors, const Seen& seen,
                        const float* log_sum, const float* delta, const Rows* kept);
};

/// Null if the compiler does not support these instructions; the caller checks whether the processor has
/// them.
const Kernels* avx512_kernels();
const Kernels* avx2_kernels();
/// For every processor.
const Kernels& plain_kernels();

}  // namespace trainer::cpu::attention
