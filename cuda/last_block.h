// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "cuda/rows.h"

namespace trainer::cuda {

// A kernel with a part of the rows per block adds the parts up itself. Of 32 blocks above each other the last
// to finish adds up their parts, and the last of such groups adds up the groups: no block waits, and none
// reads much. A counter decides which block does it; the order of the sums, and so their bits, do not depend
// on that. All threads of all blocks call the functions below.

constexpr int64_t kPartsOfGroup = 32;

/// Two numbers of a channel.
struct Totals {
  double a, b;
};

/// Addresses of parts and groups; counters are zero before a kernel and after it.
struct Parts {
  Totals* groups;  ///< (groups, channels)
  float *a, *b;    ///< (parts, channels) each
  unsigned* counters;
  int64_t group_count;

  /// In memory of bytes(sweep), aligned to 16.
  Parts(const RowSweep& sweep, void* memory, unsigned* zeros)
      : groups(static_cast<Totals*>(memory)), counters(zeros), group_count(groups_of(sweep)) {
    a = reinterpret_cast<float*>(groups + group_count * sweep.channels);
    b = a + sweep.parts * sweep.channels;
  }
  /// Memory after all of it.
  float* behind(const RowSweep& sweep) const { return b + sweep.parts * sweep.channels; }
  static int64_t groups_of(const RowSweep& sweep) {
    return (sweep.parts + kPartsOfGroup - 1) / kPartsOfGroup;
  }
  static int64_t bytes(const RowSweep& sweep) {
    constexpr auto kGroup = static_cast<int64_t>(sizeof(Totals)),
                   kPart = static_cast<int64_t>(2 * sizeof(float));
    return (groups_of(sweep) * kGroup + sweep.parts * kPart) * sweep.channels;
  }
};

/// Whether the calling block is the last of `blocks` that call this with the counter. It can then read
/// everything that they wrote before.
__device__ inline bool is_last(unsigned* counter, unsigned blocks) {
  TRAINER_SHARED(bool, last, [1]);
  __syncthreads();
  if (blocks == 1) return true;
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();
    last[0] = atomicAdd(counter, 1u) == blocks - 1;
    __threadfence();
    if (last[0]) *counter = 0;
  }
  __syncthreads();
  return last[0];
}

/// Thread t of a block owns its channel t, if there is one; the other threads help.
struct ColumnPlace {
  int wide, place, slices;
  int64_t channel;
};
__device__ inline ColumnPlace place_in_column() {
  const int wide = static_cast<int>(blockDim.x) * Octet::kSize;
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  return {wide, thread, kThreads / wide, static_cast<int64_t>(blockIdx.x) * wide + thread % wide};
}

/// The sums of term(i) for i < count, for the threads that have a channel; by all threads of a block.
template <class Term>
__device__ inline Totals add_up(const ColumnPlace& at, int64_t count, const Term& term) {
  TRAINER_SHARED(Totals, shared, [kThreads]);
  Totals sums{};
  for (int64_t i = at.place / at.wide; i < count; i += at.slices) {
    const Totals one = term(i);
    sums.a += one.a, sums.b += one.b;
  }
  shared[at.place] = sums;
  __syncthreads();
  if (at.place >= at.wide) return sums;
  for (int slice = 1; slice < at.slices; ++slice) {
    const Totals one = shared[at.place + slice * at.wide];
    sums.a += one.a, sums.b += one.b;
  }
  return sums;
}

/// Stores a block's part, which its first threads hold.
__device__ inline void store_part(const RowSweep& sweep, const Column& at, const Sums& own,
                                  const Parts& parts) {
  if (threadIdx.y != 0 || at.left <= 0) return;
  const int64_t place = blockIdx.y * sweep.channels + at.channel;
  store(own.a, at.left, parts.a + place);
  store(own.b, at.left, parts.b + place);
}

/// Once a block has stored its part: settle(channel, sums of its parts) if the block is the last of its
/// column. term(part, place) are the numbers of a part, `place` its place in parts.a and parts.b. By all
/// threads of each block, once per kernel.
template <class Term, class Settle>
__device__ inline void settle_column(const RowSweep& sweep, const Parts& parts, const Term& term,
                                     const Settle& settle) {
  const ColumnPlace at = place_in_column();
  const bool exists = at.channel < sweep.channels, settles = exists && at.place < at.wide;
  const int64_t group = blockIdx.y / kPartsOfGroup, first = group * kPartsOfGroup;
  const int64_t left = sweep.parts - first, count = left < kPartsOfGroup ? left : kPartsOfGroup;
  unsigned* counters = parts.counters + blockIdx.x * (parts.group_count + 1);
  if (!is_last(counters + group, static_cast<unsigned>(count))) return;
  Totals sums = add_up(at, exists ? count : 0,
                       [&](int64_t i) { return term(first + i, (first + i) * sweep.channels + at.channel); });
  if (parts.group_count > 1) {
    if (settles) parts.groups[group * sweep.channels + at.channel] = sums;
    if (!is_last(counters + parts.group_count, static_cast<unsigned>(parts.group_count))) return;
    sums = add_up(at, exists ? parts.group_count : 0,
                  [&](int64_t i) { return parts.groups[i * sweep.channels + at.channel]; });
  }
  if (settles) settle(at.channel, sums);
}

/// Stores the two sums of a block's part, with one per thread, and combines them with those of the other
/// parts: settle(channel, sums).
template <class Settle>
__device__ inline void settle_sums(const RowSweep& sweep, const Column& at, const Sums& of_thread,
                                   const Parts& parts, const Settle& settle) {
  const Sums own = reduce_rows(of_thread, AddSums{});
  store_part(sweep, at, own, parts);
  const auto term = [&](int64_t, int64_t place) { return Totals{parts.a[place], parts.b[place]}; };
  settle_column(sweep, parts, term, settle);
}

}  // namespace trainer::cuda
