// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <omp.h>

#include "cpu/columns.h"
#include "cpu/handler.h"
#include "cpu/parallel.h"

namespace trainer::cpu {

/// Blocks that are processed together: enough to make a barrier worthwhile, and few enough to stay in the
/// cache.
inline int64_t blocks_in_group(const ChannelBlocks& blocks) {
  constexpr int64_t kElements = int64_t{1} << 18;
  return std::clamp<int64_t>(kElements / (blocks.samples * blocks.run), 1, blocks.blocks);
}

/// Two passes over each group of channel blocks. `measure(block, piece, record)` fills one record for each
/// piece, `settle(block, records, writes)` turns a block's records into constants, and `apply(piece,
/// constants)` uses them; `writes` is true on one thread. Each group is read twice before the next, so that
/// the second pass finds it in the cache. Pieces do not depend on the number of threads, so neither do the
/// bits of the result.
template <class Record, class Measure, class Settle, class Apply>
void two_passes(const ChannelBlocks& blocks, Record* records, const Measure& measure, const Settle& settle,
                const Apply& apply) {
  const int64_t pieces = blocks.pieces(), group = blocks_in_group(blocks);
  const int64_t useful =
      std::max<int64_t>(1, pieces * blocks.piece_elements() * group / kElementsWorthAThread);
  const int threads = static_cast<int>(std::min<int64_t>({useful, pieces, omp_get_max_threads()}));
#pragma omp parallel num_threads(threads)
  {
    const int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
    const int64_t begin = pieces * me / all, end = pieces * (me + 1) / all;
    for (int64_t first = 0; first < blocks.blocks; first += group) {
      const int64_t last = std::min(blocks.blocks, first + group);
      for (int64_t block = first; block < last; ++block) {
        for (int64_t i = begin; i < end; ++i)
          measure(block, blocks.piece(block, i), records[block * pieces + i]);
      }
#pragma omp barrier
      for (int64_t block = last; block-- > first;) {
        const auto constants = settle(block, records + block * pieces, me == 0);
        for (int64_t i = end; i-- > begin;) apply(blocks.piece(block, i), constants);
      }
    }
  }
}

/// The first pass alone: a record for each piece of each block.
template <class Record, class Measure>
void measure_pass(const ChannelBlocks& blocks, Record* records, const Measure& measure) {
  const int64_t pieces = blocks.pieces();
  parallel_rows(blocks.blocks * pieces, blocks.piece_elements(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      measure(i / pieces, blocks.piece(i / pieces, i % pieces), records[i]);
  });
}

/// The second pass alone: `settle(block, writes)` gives a block's constants; `writes` is true once for each.
template <class Settle, class Apply>
void apply_pass(const ChannelBlocks& blocks, const Settle& settle, const Apply& apply) {
  const int64_t pieces = blocks.pieces();
  parallel_rows(blocks.blocks * pieces, blocks.piece_elements(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t block = i / pieces, stop = std::min(end, (block + 1) * pieces);
      const auto constants = settle(block, i % pieces == 0);
      for (; i < stop; ++i) apply(blocks.piece(block, i % pieces), constants);
    }
  });
}

/// Workspace for the records.
template <class Record>
int64_t record_bytes(const ChannelBlocks& blocks) {
  return blocks.blocks * blocks.pieces() * static_cast<int64_t>(sizeof(Record));
}

/// Calls visit(s) for each column that holds the lane.
template <class Visit>
void for_each_column(const ChannelBlocks& blocks, int64_t lane, const Visit& visit) {
  for (int64_t s = lane; s < kColumns; s += blocks.lanes) visit(static_cast<size_t>(s));
}

/// The tensor `image` and all of its shape in one layout that has channel blocks, all else row-major.
Choice select_blocks(const OpContext& context, const OpenLayouts& inputs, size_t image);

}  // namespace trainer::cpu
