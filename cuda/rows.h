// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/block_sums.h"
#include "cuda/grid.h"
#include "cuda/launch.h"

namespace trainer::cuda {

// Images with their channels last are matrices: a row for each pixel, a column for each channel. A thread
// has eight channels and some of the rows, so that values of a channel stay in its registers.

struct RowSweep {
  int64_t rows = 0, channels = 0;
  int64_t rows_of_block = 0;
  int wide = 0;       ///< threads side by side; kThreads / wide above each other
  int64_t parts = 0;  ///< of the rows

  RowSweep() = default;
  RowSweep(int64_t r, int64_t c) : rows(r), channels(c) {
    // Enough blocks for every GPU, each with enough rows to be worth its own sums.
    constexpr int64_t kRowsOfThread = 8;
    wide = 1;
    while (wide < 32 && wide < octets()) wide *= 2;
    const int64_t worth = (rows + high() * kRowsOfThread - 1) / (high() * kRowsOfThread);
    parts = std::clamp<int64_t>(kSummingBlocks / columns(), 1, worth);
    rows_of_block = (rows + parts - 1) / parts;
    parts = (rows + rows_of_block - 1) / rows_of_block;
  }

  /// All rows to each block: for several matrices.
  RowSweep in_one_part() const {
    RowSweep sweep = *this;
    sweep.parts = 1, sweep.rows_of_block = rows;
    return sweep;
  }
  TRAINER_HD int64_t octets() const { return (channels + Octet::kSize - 1) / Octet::kSize; }
  TRAINER_HD int64_t columns() const { return (octets() + wide - 1) / wide; }
  int64_t high() const { return kThreads / wide; }
  dim3 grid() const { return dim3(static_cast<unsigned>(columns()), static_cast<unsigned>(parts)); }
  dim3 block() const { return dim3(static_cast<unsigned>(wide), static_cast<unsigned>(high())); }
};

/// The rows of a thread. Beyond the last channel there are no rows.
struct Column {
  int64_t octet, channel, left;  ///< left: channels from here on
  int64_t row, end, step;
};

__device__ inline Column column_of(const RowSweep& sweep, int64_t column, int64_t part) {
  const int64_t octet = column * blockDim.x + threadIdx.x;
  const int64_t channel = octet * Octet::kSize, left = sweep.channels - channel;
  const int64_t first = part * sweep.rows_of_block;
  const int64_t end = first + sweep.rows_of_block < sweep.rows ? first + sweep.rows_of_block : sweep.rows;
  return {octet, channel, left, first + threadIdx.y, left > 0 ? end : 0, blockDim.y};
}

__device__ inline Column column_of(const RowSweep& sweep, int64_t column) {
  return column_of(sweep, column, blockIdx.y);
}

/// For a pass that begins at the end of the previous one: its last rows may still be in the cache.
__device__ inline Column column_from_end(const RowSweep& sweep, int64_t column) {
  Column at = column_of(sweep, column, gridDim.y - 1 - blockIdx.y);
  if (at.row >= at.end) return at;
  const int64_t last = at.row + (at.end - 1 - at.row) / at.step * at.step;
  return {at.octet, at.channel, at.left, last, at.row - 1, -at.step};
}

/// Visits a thread's rows of T, by use(row, fetch(row)). Several rows are fetched before the first is used,
/// so that enough loads are in flight: kBytes of each tensor.
template <class T, int kBytes = 64, class Fetch, class Use>
__device__ inline void for_rows(const Column& at, const Fetch& fetch, const Use& use) {
  constexpr int kInFlight = kBytes / static_cast<int>(Octet::kSize * sizeof(T));
  const int64_t towards_end = at.step > 0 ? 1 : -1;
  int64_t left = at.left > 0 ? (at.end - at.row + at.step - towards_end) / at.step : 0, row = at.row;
  for (; left >= kInFlight; left -= kInFlight) {
    decltype(fetch(row)) fetched[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) fetched[i] = fetch(row + i * at.step);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) use(row + i * at.step, fetched[i]);
    row += kInFlight * at.step;
  }
  for (; left > 0; --left, row += at.step) use(row, fetch(row));
}

/// kBytes for kernels that fetch two tensors. Octets that are not whole also take registers for their single
/// elements.
template <class Rows>
constexpr int kBytesOfTwo = 48;
template <class T>
constexpr int kBytesOfTwo<Octets<T, true>> = kHasRegistersForMore ? 64 : 48;

/// Two results for each of eight channels. The odd number of words keeps neighbours in different banks.
struct Sums {
  Octet a, b;
  float count;
};

/// Merges the results of the threads above each other into that of the first; once per kernel, by all.
template <class Merge>
__device__ inline Sums reduce_rows(Sums own, const Merge& merge) {
  TRAINER_SHARED(Sums, shared, [kThreads]);
  const unsigned place = threadIdx.y * blockDim.x + threadIdx.x;
  shared[place] = own;
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y >= half) continue;
    merge(own, shared[place + half * blockDim.x]);
    shared[place] = own;
  }
  return own;
}

/// For reduce_rows: plain sums.
struct AddSums {
  __device__ void operator()(Sums& own, const Sums& other) const {
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) own.a.v[i] += other.a.v[i], own.b.v[i] += other.b.v[i];
  }
};

/// Sums over the parts of one channel, in double and in one order: 32 channels to a block, which calls this
/// as a whole. term(part) is added for each part; the result is every thread's of the channel.
constexpr int kFinishWide = 32, kFinishHigh = 16;
template <class Term>
__device__ inline double sum_parts(int64_t parts, const Term& term) {
  TRAINER_SHARED(double, shared, [kFinishHigh][kFinishWide]);
  double sum = 0;
  for (int64_t part = threadIdx.y; part < parts; part += kFinishHigh) sum += term(part);
  __syncthreads();  // the previous call's values have been read
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < kFinishHigh; ++i) sum += shared[i][threadIdx.x];
  return sum;
}

inline dim3 finish_grid(int64_t channels) {
  return dim3(static_cast<unsigned>((channels + kFinishWide - 1) / kFinishWide));
}
inline dim3 finish_block() {
  return dim3(kFinishWide, kFinishHigh);
}

}  // namespace trainer::cuda
