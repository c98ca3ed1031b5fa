// SPDX-License-Identifier: Apache-2.0
#include "core/base/math.h"
#include "cuda/attention.h"
#include "cuda/attention_tiles.h"

namespace trainer::cuda {
namespace {

// With p = exp(scale * q . k - lse) and the factor f of dropout:
//   dv = sum of p * f * dy over the queries,
//   ds = p * (f * dy . v - dy . y), dq = scale * sum of ds * k, dk = scale * sum of ds * q.

/// The part of its row that a query's gradient needs.
struct QueryTerms {
  SeenKeys seen;
  float lse, product;  ///< product: dy . y
};
/// The terms of a tile's queries, into shared memory: registers are scarce. A barrier must follow.
__device__ inline void put_terms(const AttentionCall& call, const float* lse, const float* products,
                                 int sample, int head, int tile_begin, QueryTerms* terms) {
  const int row = static_cast<int>(threadIdx.x), query = tile_begin + row;
  if (row >= kTile) return;
  terms[row] = {};
  if (query >= call.queries) return;
  const int64_t of_lse = (int64_t{sample} * call.heads + head) * call.queries + query;
  const int64_t of_product = (int64_t{sample} * call.queries + query) * call.heads + head;
  terms[row] = {seen_by(call, sample, query), lse[of_lse], products[of_product]};
}

/// Turns score and dy . v of one query and key into dv's probability, and ds.
__device__ inline void differentiate(const QueryTerms& of, int key, float scale, float factor, float& score,
                                     float& dp) {
  const float p = of.seen.has(key) ? math::exp(score * scale - of.lse) : 0.0f;
  score = p * factor;
  dp = score * dp - p * of.product;
}

/// dy . y for each query and head, a warp each.
template <class T>
__global__ void __launch_bounds__(kThreads)
    multiply_rows(int64_t rows, int size, const T* dy, const T* y, float* products) {
  wait_for_previous_kernels();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= rows) return;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < size; i += kWarp)
    sum = fmaf(to_float(dy[row * size + i]), to_float(y[row * size + i]), sum);
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) products[row] = sum;
}

/// A block for a tile of queries, which loops over the keys that they see.
template <int kChunks, class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    differentiate_queries(const AttentionCall __grid_constant__ call,
                          const AttentionGradients __grid_constant__ of, int tiles, int parts,
                          const float* products) {
  wait_for_previous_kernels();
  TRAINER_SHARED(float, left, [kTile][kTileStride]);
  TRAINER_SHARED(float, right, [kTile][kTileStride]);
  TRAINER_SHARED(QueryTerms, terms, [kTile]);
  const BlockPlace at = place_of_block(tiles, parts, call.heads);
  const int query = (tiles - 1 - at.tile) * kTile, size = call.size, end = call.queries;
  const int kv_head = at.head / (call.heads / call.kv_heads);
  const HeadRows<T> queries = head_rows<T>(call.q, at.sample, end, at.head, size, query, end);
  const Sequences dy{of.dy, call.heads * size};
  const HeadRows<T> dys = head_rows<T>(dy, at.sample, end, at.head, size, query, end);
  put_terms(call, of.lse, products, at.sample, at.head, query, terms);
  Square sums[kChunks] = {};
  const SeenKeys all = seen_by_tile(call, at.sample, query);
#pragma unroll 1
  for (int key = all.first; key < all.end; key += kTile) {
    const HeadRows<T> keys = head_rows<T>(call.k, at.sample, call.keys, kv_head, size, key, all.end);
    const HeadRows<T> values = head_rows<T>(call.v, at.sample, call.keys, kv_head, size, key, all.end);
    Square dp = dots(dys, values, size, left, right);
    Square scores = dots(queries, keys, size, left, right);
    const int own_key = key + own_strided_column();
    const unsigned dropped = draw_dropped(call, at.sample, at.head, [&](int r, int c) {
      return QueryKey{query + own_row() + r, own_key + c * kAcross};
    });
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      const QueryTerms term = terms[own_row() + r];
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        differentiate(term, own_key + c * kAcross, call.scale, dropout_factor(call, dropped, r, c),
                      scores.v[r][c], dp.v[r][c]);
      }
    }
    add_weighted(dp, queries.count, keys, at.part * kChunks * kTile, size, left, right, sums);
  }
  const int64_t place = (int64_t{at.sample} * end + query) * call.q.stride + int64_t{at.head} * size;
  store_sums(sums, call.scale, queries.count, at.part * kChunks * kTile, size, call.q.stride,
             static_cast<T*>(of.dq) + place);
}

/// A block for a tile of keys and values, which loops over the queries of all heads that read them.
template <int kChunks, class T>
__global__ void __launch_bounds__(kThreads, kChunks == 1 ? kFewBlocks : 1)
    differentiate_keys(const AttentionCall __grid_constant__ call,
                       const AttentionGradients __grid_constant__ of, int tiles, int parts,
                       const float* products) {
  wait_for_previous_kernels();
  TRAINER_SHARED(float, left, [kTile][kTileStride]);
  TRAINER_SHARED(float, right, [kTile][kTileStride]);
  TRAINER_SHARED(QueryTerms, terms, [kTile]);
  const BlockPlace at = place_of_block(tiles, parts, call.kv_heads);
  const int key = at.tile * kTile, size = call.size, from = at.part * kChunks * kTile, end = call.queries;
  const Sequences dy{of.dy, call.heads * size};
  // Keys and values, and their gradients, have the same layout.
  const int64_t place = (int64_t{at.sample} * call.keys + key) * call.k.stride + int64_t{at.head} * size;
  const int count = call.keys - key < kTile ? call.keys - key : kTile;
  const int group = call.heads / call.kv_heads, query_tiles = tiles_of(end);
  Square dk[kChunks] = {}, dv[kChunks] = {};
#pragma unroll 1
  for (int i = 0; i < group * query_tiles; ++i) {
    const int head = at.head * group + i / query_tiles, query = i % query_tiles * kTile;
    const SeenKeys all = seen_by_tile(call, at.sample, query);
    if (all.end <= key || all.first >= key + kTile) continue;
    const HeadRows<T> queries = head_rows<T>(call.q, at.sample, end, head, size, query, end);
    const HeadRows<T> dys = head_rows<T>(dy, at.sample, end, head, size, query, end);
    const HeadRows<T> keys{static_cast<const T*>(call.k.data) + place, call.k.stride, count};
    const HeadRows<T> values{static_cast<const T*>(call.v.data) + place, call.v.stride, count};
    put_terms(call, of.lse, products, at.sample, head, query, terms);
    Square dp = dots(values, dys, size, left, right);
    Square scores = dots(keys, queries, size, left, right);
    const int own_query = query + own_strided_column(), own_key = key + own_row();
    const unsigned dropped = draw_dropped(call, at.sample, head, [&](int r, int c) {
      return QueryKey{own_query + c * kAcross, own_key + r};
    });
#pragma unroll
    for (int c = 0; c < kSide; ++c) {
      const QueryTerms term = terms[own_strided_column() + c * kAcross];
#pragma unroll
      for (int r = 0; r < kSide; ++r) {
        differentiate(term, own_key + r, call.scale, dropout_factor(call, dropped, r, c), scores.v[r][c],
                      dp.v[r][c]);
      }
    }
    add_weighted(scores, count, dys, from, size, left, right, dv);
    add_weighted(dp, count, queries, from, size, left, right, dk);
  }
  if (of.dk != nullptr)
    store_sums(dk, call.scale, count, from, size, call.k.stride, static_cast<T*>(of.dk) + place);
  if (of.dv != nullptr)
    store_sums(dv, 1.0f, count, from, size, call.v.stride, static_cast<T*>(of.dv) + place);
}

int64_t query_rows(const AttentionCall& call) {
  return static_cast<int64_t>(call.samples) * call.queries * call.heads;
}

template <int kChunks, class T>
cudaError_t launch_gradients(const AttentionCall& call, const AttentionGradients& of, float* products,
                             cudaStream_t stream) {
  const int64_t rows = query_rows(call);
  constexpr int64_t kRows = kThreads / kWarp;
  cudaError_t status =
      launch(multiply_rows<T>, dim3(static_cast<unsigned>((rows + kRows - 1) / kRows)), dim3(kThreads),
             stream, rows, call.size, static_cast<const T*>(of.dy), static_cast<const T*>(of.y), products);
  const int parts = parts_of<kChunks>(call.size), per_head = call.samples * parts;
  if (status == cudaSuccess && of.dq != nullptr) {
    const int tiles = tiles_of(call.queries);
    status =
        launch(differentiate_queries<kChunks, T>, dim3(static_cast<unsigned>(per_head * call.heads * tiles)),
               dim3(kThreads), stream, call, of, tiles, parts, products);
  }
  if (status == cudaSuccess && (of.dk != nullptr || of.dv != nullptr)) {
    const int tiles = tiles_of(call.keys);
    status =
        launch(differentiate_keys<kChunks, T>, dim3(static_cast<unsigned>(per_head * call.kv_heads * tiles)),
               dim3(kThreads), stream, call, of, tiles, parts, products);
  }
  return status;
}

}  // namespace

int64_t attention_workspace_bytes(const AttentionCall& call) {
  return query_rows(call) * static_cast<int64_t>(sizeof(float));
}

cudaError_t launch_attention_backward(const AttentionCall& call, DType dtype, const AttentionGradients& of,
                                      void* workspace, cudaStream_t stream) {
  return with_storage(dtype, [&](auto type) {
    return with_chunks(call.size, [&](auto chunks) {
      return launch_gradients<decltype(chunks)::value, decltype(type)>(
          call, of, static_cast<float*>(workspace), stream);
    });
  });
}

}  // namespace trainer::cuda
