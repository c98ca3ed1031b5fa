// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention.h"

#include "core/base/math.h"
#include "cuda/attention_tiles.h"

namespace trainer::cuda {
namespace {

/// State of the scores so far of the thread's four rows: their largest, and the sum of exp(score -
/// largest) (Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018).
struct RunningSoftmax {
  float largest[kSide], sum[kSide];

  __device__ float log_sum(int r) const { return sum[r] == 0 ? -INFINITY : largest[r] + ::logf(sum[r]); }
};

/// Turns a tile of scores into exp(score - largest), 0 if the key is not seen; `shrink` of a row is
/// the factor for its earlier sums.
__device__ inline void take_tile(const SeenKeys* seen_of, int key, Square& scores, RunningSoftmax& softmax,
                                 float (&shrink)[kSide]) {
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    const SeenKeys seen = seen_of[own_row() + r];
    float largest = softmax.largest[r];
#pragma unroll
    for (int c = 0; c < kSide; ++c) {
      if (seen.has(key + c * kAcross)) largest = Larger{}(largest, scores.v[r][c]);
    }
    largest = row_reduce(largest, Larger{});
    shrink[r] = largest == softmax.largest[r] ? 1.0f : math::exp(softmax.largest[r] - largest);
    softmax.largest[r] = largest;
    float sum = 0;
#pragma unroll
    for (int c = 0; c < kSide; ++c) {
      float& score = scores.v[r][c];
      score = seen.has(key + c * kAcross) ? math::exp(score - largest) : 0.0f;
      sum += score;
    }
    sum = row_reduce(sum, [](float a, float b) { return a + b; });
    softmax.sum[r] = softmax.sum[r] * shrink[r] + sum;
  }
}

/// The sums of a row, which are zeros if it sees nothing, over that of its exponentials.
template <int kChunks>
__device__ inline void divide(const RunningSoftmax& softmax, Square (&sums)[kChunks]) {
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    const float inverse = softmax.sum[r] == 0 ? 0.0f : 1.0f / softmax.sum[r];
#pragma unroll
    for (int c = 0; c < kSide; ++c) {
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) sums[chunk].v[r][c] *= inverse;
    }
  }
}

/// A block for a tile of queries of one head, and for a part of the head's elements. It loops over the keys
/// that the queries see (Dao et al., "FlashAttention", 2022).
template <int kChunks, class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    attend(const AttentionCall __grid_constant__ call, int tiles, int parts, T* y, float* lse) {
  wait_for_previous_kernels();
  TRAINER_SHARED(float, left, [kTile][kTileStride]);
  TRAINER_SHARED(float, right, [kTile][kTileStride]);
  TRAINER_SHARED(SeenKeys, seen, [kTile]);
  const BlockPlace at = place_of_block(tiles, parts, call.heads);
  // With causal attention the last queries see most: they go first.
  const int query = (tiles - 1 - at.tile) * kTile, size = call.size;
  const int kv_head = at.head / (call.heads / call.kv_heads);
  const HeadRows<T> queries =
      head_rows<T>(call.q, at.sample, call.queries, at.head, size, query, call.queries);
  // Read for each tile of keys after a barrier: registers are scarce.
  if (threadIdx.x < kTile)
    seen[threadIdx.x] = seen_by(call, at.sample, query + static_cast<int>(threadIdx.x));
  RunningSoftmax softmax;
#pragma unroll
  for (int r = 0; r < kSide; ++r) softmax.largest[r] = -INFINITY, softmax.sum[r] = 0;
  Square sums[kChunks] = {};
  const SeenKeys all = seen_by_tile(call, at.sample, query);
#pragma unroll 1
  for (int key = all.first; key < all.end; key += kTile) {
    const HeadRows<T> keys = head_rows<T>(call.k, at.sample, call.keys, kv_head, size, key, all.end);
    const HeadRows<T> values = head_rows<T>(call.v, at.sample, call.keys, kv_head, size, key, all.end);
    Square scores = dots(queries, keys, size, left, right);
    const int own_key = key + own_strided_column();
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
#pragma unroll
      for (int c = 0; c < kSide; ++c) scores.v[r][c] *= call.scale;
    }
    const unsigned dropped = draw_dropped(call, at.sample, at.head, [&](int r, int c) {
      return QueryKey{query + own_row() + r, own_key + c * kAcross};
    });
    float shrink[kSide];
    take_tile(seen, own_key, scores, softmax, shrink);
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) sums[chunk].v[r][c] *= shrink[r];
        scores.v[r][c] *= dropout_factor(call, dropped, r, c);
      }
    }
    add_weighted(scores, queries.count, values, at.part * kChunks * kTile, size, left, right, sums);
  }
  divide(softmax, sums);
  const int64_t row = int64_t{at.sample} * call.queries + query;
  store_sums(sums, 1.0f, queries.count, at.part * kChunks * kTile, size, call.heads * size,
             y + (row * call.heads + at.head) * size);
  if (lse == nullptr || at.part != 0 || own_strided_column() != 0) return;
  lse += (int64_t{at.sample} * call.heads + at.head) * call.queries + query;
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    if (own_row() + r < queries.count) lse[own_row() + r] = softmax.log_sum(r);
  }
}

}  // namespace

double attention_blocks(const AttentionCall& call) {
  constexpr double kWarps = kThreads / kWarp;  // the gradient begins with a warp for each query and head
  const double of_head =
      std::max(static_cast<double>(call.queries) / kWarps + 1,
               static_cast<double>(parts_of<1>(call.size)) * tiles_of(std::max(call.queries, call.keys)));
  return static_cast<double>(call.samples) * call.heads * of_head;
}

cudaError_t launch_attention(const AttentionCall& call, DType dtype, void* y, float* lse,
                             cudaStream_t stream) {
  return with_storage(dtype, [=](auto type) {
    using T = decltype(type);
    return with_chunks(call.size, [=](auto chunks) {
      constexpr int kChunks = decltype(chunks)::value;
      const int tiles = tiles_of(call.queries), parts = parts_of<kChunks>(call.size);
      const auto blocks = static_cast<unsigned>(call.samples * call.heads * parts * tiles);
      return launch(attend<kChunks, T>, dim3(blocks), dim3(kThreads), stream, call, tiles, parts,
                    static_cast<T*>(y), lse);
    });
  });
}

}  // namespace trainer::cuda
