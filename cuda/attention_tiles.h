// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <climits>
#include <cmath>
#include <type_traits>

#include "cuda/attention.h"
#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/reduce.h"
#include "cuda/storage.h"

namespace trainer::cuda {

// Attention works on tiles of 64 queries and 64 keys. A block keeps two tiles of numbers in shared memory.
// Each of its 256 threads computes four rows and four columns of their product. The sixteen threads of a row
// are half a warp.

constexpr int kTile = 64, kSide = 4, kAcross = kTile / kSide;
static_assert(kAcross * kAcross == kThreads);
/// With a padding of four numbers, neighbouring rows begin in different banks, and vectors of four stay
/// aligned.
constexpr int kTileStride = kTile + 4;
using Tile = float[kTile][kTileStride];

/// A thread's part of a product.
struct Square {
  float v[kSide][kSide];
};

/// The first of the thread's four rows.
__device__ inline int own_row() {
  return static_cast<int>(threadIdx.x) / kAcross * kSide;
}
/// The first of its columns. Columns that are rows of a tile are `kAcross` apart, so that threads read
/// different banks; columns that are written in the end are adjacent.
__device__ inline int own_strided_column() {
  return static_cast<int>(threadIdx.x) % kAcross;
}
__device__ inline int own_column() {
  return own_strided_column() * kSide;
}

/// f over the values of the threads of a row, for all of them; f must be commutative.
template <class F>
__device__ inline float row_reduce(float value, const F& f) {
  for (int step = kAcross / 2; step > 0; step /= 2) value = f(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

/// Up to 64 rows of one head; those from `count` on do not exist.
template <class T>
struct HeadRows {
  const T* data;
  int stride, count;
};

/// Positions [from, end) of a head, up to a tile.
template <class T>
__device__ inline HeadRows<T> head_rows(const Sequences& all, int sample, int length, int head, int size,
                                        int from, int end) {
  const T* data = static_cast<const T*>(all.data);
  return {data + (int64_t{sample} * length + from) * all.stride + static_cast<int64_t>(head) * size,
          all.stride, end - from < kTile ? end - from : kTile};
}

/// Elements [from, from + 64) of each row into a tile, zeros if there are none; by all threads.
template <class T>
__device__ inline void fetch(const HeadRows<T>& rows, int from, int size, Tile& tile) {
  constexpr int kOctets = kTile / Octet::kSize;
#pragma unroll 1  // more at once would take more registers than are available
  for (int i = 0; i < kTile * kOctets / kThreads; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x);
    const int row = at / kOctets, column = at % kOctets * Octet::kSize;
    const Octet x = load(rows.data + int64_t{row} * rows.stride + from + column,
                         row < rows.count ? size - from - column : 0);
    auto* to = reinterpret_cast<float4*>(&tile[row][column]);
    to[0] = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
    to[1] = make_float4(x.v[4], x.v[5], x.v[6], x.v[7]);
  }
}

__device__ inline float4 four(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}

/// sum += left rowT for each pair of rows, over their first `inner` elements.
__device__ inline void add_dots(const Tile& left, const Tile& right, int inner, Square& sum) {
  const int row = own_row(), column = own_strided_column();
#pragma unroll 1
  for (int i = 0; i < inner; i += 4) {
    float4 a[kSide];
#pragma unroll
    for (int r = 0; r < kSide; ++r) a[r] = four(&left[row + r][i]);
#pragma unroll
    for (int c = 0; c < kSide; ++c) {
      const float4 b = four(&right[column + c * kAcross][i]);
#pragma unroll
      for (int r = 0; r < kSide; ++r) {
        float& to = sum.v[r][c];
        to = fmaf(a[r].x, b.x, to), to = fmaf(a[r].y, b.y, to);
        to = fmaf(a[r].z, b.z, to), to = fmaf(a[r].w, b.w, to);
      }
    }
  }
}

__device__ inline void add_row(float factor, const float4& b, float (&to)[kSide]) {
  to[0] = fmaf(factor, b.x, to[0]), to[1] = fmaf(factor, b.y, to[1]);
  to[2] = fmaf(factor, b.z, to[2]), to[3] = fmaf(factor, b.w, to[3]);
}

/// sum += left right, over the first `inner` rows of `right`.
__device__ inline void add_product(const Tile& left, const Tile& right, int inner, Square& sum) {
  const int row = own_row(), column = own_column();
#pragma unroll 1
  for (int i = 0; i < inner; i += 4) {
    const float4 b0 = four(&right[i][column]), b1 = four(&right[i + 1][column]);
    const float4 b2 = four(&right[i + 2][column]), b3 = four(&right[i + 3][column]);
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      const float4 a = four(&left[row + r][i]);
      add_row(a.x, b0, sum.v[r]), add_row(a.y, b1, sum.v[r]);
      add_row(a.z, b2, sum.v[r]), add_row(a.w, b3, sum.v[r]);
    }
  }
}

/// The products of each row of `a` with each of `b`, with strided columns; by all threads.
template <class T>
__device__ inline Square dots(const HeadRows<T>& a, const HeadRows<T>& b, int size, Tile& left, Tile& right) {
  Square sum{};
  const bool exists = own_row() < a.count && own_strided_column() < b.count;
#pragma unroll 1
  for (int from = 0; from < size; from += kTile) {
    __syncthreads();  // all have read it
    fetch(a, from, size, left);
    fetch(b, from, size, right);
    __syncthreads();
    if (exists) add_dots(left, right, size - from < kTile ? size - from : kTile, sum);
  }
  return sum;
}

/// sums += weights rows, of the rows' elements from `from` on; `count` of the weights' rows exist, and their
/// columns are strided. By all threads.
template <int kChunks, class T>
__device__ inline void add_weighted(const Square& weights, int count, const HeadRows<T>& rows, int from,
                                    int size, Tile& left, Tile& right, Square (&sums)[kChunks]) {
  __syncthreads();  // all have read it
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
#pragma unroll
    for (int c = 0; c < kSide; ++c) left[own_row() + r][own_strided_column() + c * kAcross] = weights.v[r][c];
  }
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int begin = from + chunk * kTile;
    if (begin >= size) break;
    if (chunk > 0) __syncthreads();
    fetch(rows, begin, size, right);
    __syncthreads();
    if (own_row() < count && begin + own_column() < size) add_product(left, right, rows.count, sums[chunk]);
  }
}

/// Writes `factor` times the sums, if these rows and elements exist. `to` is the address of the head's
/// elements
/// of the tile's first row.
template <int kChunks, class T>
__device__ inline void store_sums(const Square (&sums)[kChunks], float factor, int count, int from, int size,
                                  int stride, T* to) {
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    if (own_row() + r >= count) break;
    T* row = to + int64_t{own_row() + r} * stride;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int column = from + chunk * kTile + own_column();
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        if (column + c < size) put(sums[chunk].v[r][c] * factor, row[column + c]);
      }
    }
  }
}

/// A block's tile of rows, and the part of a head's elements that it writes: parts of `kChunks` tiles.
struct BlockPlace {
  int tile, part, head, sample;
};
__device__ inline BlockPlace place_of_block(int tiles, int parts, int heads) {
  const auto block = static_cast<int>(blockIdx.x);
  return {block % tiles, block / tiles % parts, block / tiles / parts % heads, block / tiles / parts / heads};
}
TRAINER_HD int tiles_of(int count) {
  return (count + kTile - 1) / kTile;
}

/// Keys [first, end) that a query sees; none if it does not exist.
struct SeenKeys {
  int first, end;
  __device__ bool has(int key) const { return key >= first && key < end; }
};
__device__ inline SeenKeys seen_by(const AttentionCall& call, int sample, int query) {
  if (query >= call.queries) return {0, 0};
  const int64_t position = (call.first == nullptr ? 0 : *call.first) + int64_t{query};
  const int64_t start = call.start == nullptr ? 0 : call.start[int64_t{sample} * call.queries + query];
  const AttentionSettings::Keys keys = call.settings.keys_of(position, call.keys, start);
  return {static_cast<int>(keys.first), static_cast<int>(keys.end)};
}

/// The keys seen by any query of the tile from `query` on, for all threads.
__device__ inline SeenKeys seen_by_tile(const AttentionCall& call, int sample, int query) {
  SeenKeys all{INT_MAX, 0};
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < kTile; i += kWarp) {
    const SeenKeys one = seen_by(call, sample, query + i);
    if (one.first >= one.end) continue;
    all = {one.first < all.first ? one.first : all.first, one.end > all.end ? one.end : all.end};
  }
  return {warp_reduce(all.first, [](int a, int b) { return a < b ? a : b; }),
          warp_reduce(all.end, [](int a, int b) { return a > b ? a : b; })};
}

/// A bit for each of the thread's elements that dropout drops; place(r, c) is its query and key. Not
/// unrolled, and nothing is kept from tile to tile: registers are scarce.
struct QueryKey {
  int query, key;
};
template <class PlaceOf>
__device__ inline unsigned draw_dropped(const AttentionCall& call, int sample, int head,
                                        const PlaceOf& place) {
  unsigned dropped = 0;
  if (!call.drops) return dropped;
  const int32_t index = call.sample[sample], step = *call.step;
#pragma unroll 1
  for (int i = 0; i < kSide * kSide; ++i) {
    const QueryKey of = place(i / kSide, i % kSide);
    const int64_t element = AttentionSettings::element(call.settings.first_head + head, of.query, of.key,
                                                       call.queries, call.keys);
    const Words words = call.dropout.block(element / 4, index, step);
    const uint32_t low = element % 2 == 0 ? words.v[0] : words.v[1];
    const uint32_t high = element % 2 == 0 ? words.v[2] : words.v[3];
    dropped |= static_cast<unsigned>(call.dropout.drops(element % 4 < 2 ? low : high)) << i;
  }
  return dropped;
}
/// The factor of the thread's element (r, c).
__device__ inline float dropout_factor(const AttentionCall& call, unsigned dropped, int r, int c) {
  return (dropped >> (r * kSide + c) & 1u) != 0 ? 0.0f : call.kept;
}

/// Calls start(number of chunks) with the number, known when compiled, that a block takes of a head's
/// elements.
template <class Start>
cudaError_t with_chunks(int size, const Start& start) {
  if (size <= kTile) return start(std::integral_constant<int, 1>{});
  return start(std::integral_constant<int, 2>{});
}
template <int kChunks>
int parts_of(int size) {
  return (size + kChunks * kTile - 1) / (kChunks * kTile);
}

}  // namespace trainer::cuda
