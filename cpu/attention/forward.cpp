// SPDX-License-Identifier: Apache-2.0
#include <omp.h>

#include <cmath>
#include <limits>

#include "cpu/attention/few_queries.h"
#include "cpu/attention/rows.h"
#include "cpu/onednn.h"

namespace trainer::cpu::attention {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// Buffers of one thread. Columns are the transposed rows of a panel: [element][lane].
struct ForwardRoom {
  static constexpr int64_t kRows = 128;

  ForwardRoom(const Use& use, float* memory) : carver(memory), seen(use, kRows, carver) {
    const int64_t width = use.width(), panel = use.panel();
    rows = carver.take(kRows * width);
    q = carver.take(kRows * width);
    y = carver.take(kRows * width);
    k = carver.take(kKeyBlock * width);
    v = carver.take(kKeyBlock * width);
    scores = carver.take(kKeyBlock * panel);
    kept = carver.take(use.settings.dropout ? kKeyBlock * panel : 0);
    largest = carver.take(kRows);
    sum = carver.take(kRows);
    shrink = carver.take(panel);
  }

  Carver carver;
  SeenKeys seen;
  float *rows, *q, *y;   ///< rows as they are stored; columns of q, of the unnormalised y
  float *k, *v;          ///< rows
  float *scores, *kept;  ///< [key][lane]
  float *largest, *sum;  ///< of each row, up to the current key block
  float* shrink;
};

/// y, sum by sum: each key block adds exp(score - largest) v, after the earlier sum was scaled to the new
/// largest score.
class ForwardBlocks final : public Forward {
 public:
  explicit ForwardBlocks(const Use& use)
      : use_(use), room_floats_(ForwardRoom(use_, nullptr).carver.used()) {}

  int64_t workspace_floats() const override { return use_.threads * room_floats_; }

  void run(const Given& given, void* y, float* log_sum, float* workspace) const override {
    const AttentionSizes& e = use_.sizes;
    const int64_t blocks = (use_.rows() + ForwardRoom::kRows - 1) / ForwardRoom::kRows;
    const int64_t pieces = e.samples * e.kv_heads * blocks;
#pragma omp parallel for schedule(dynamic, 1) num_threads(use_.threads) if (pieces > 1)
    for (int64_t piece = 0; piece < pieces; ++piece) {
      ForwardRoom room(use_, workspace + omp_get_thread_num() * room_floats_);
      const int64_t head = piece / blocks, begin = piece % blocks * ForwardRoom::kRows;
      const RowBlock block{.use = use_,
                           .sample = head / e.kv_heads,
                           .kv_head = head % e.kv_heads,
                           .begin = begin,
                           .count = std::min(ForwardRoom::kRows, use_.rows() - begin)};
      sum_up(block, given, room);
      finish(block, room, y, log_sum);
    }
  }

 private:
  void sum_up(const RowBlock& block, const Given& given, ForwardRoom& room) const {
    const AttentionSizes& e = use_.sizes;
    const int64_t rows = block.panels() * use_.panel();
    std::fill_n(room.largest, rows, kNothing);
    std::fill_n(room.sum, rows, 0.0f);
    std::fill_n(room.y, rows * use_.width(), 0.0f);
    read_block(block, given.q, e.q_row(), static_cast<float>(use_.settings.factor(e.size)), room.rows);
    for (int64_t p = 0; p < block.panels(); ++p) {
      use_.kernels->transpose({room.rows + p * use_.panel() * use_.width(), use_.width()}, block.rows_of(p),
                              e.size, columns(room.q, p));
    }
    room.seen.find(block, given);
    const AttentionSettings::Keys all = room.seen.all();
    for (int64_t key = all.first; key < all.end; key += kKeyBlock) {
      const KeyBlock keys{.use = use_,
                          .sample = block.sample,
                          .kv_head = block.kv_head,
                          .begin = key,
                          .count = std::min(kKeyBlock, all.end - key)};
      read_keys(keys, given.k, e.k_begin(), room.k);
      read_keys(keys, given.v, e.v_begin(), room.v);
      for (int64_t p = 0; p < block.panels(); ++p) add_keys(block, p, keys, given, room);
    }
  }

  void add_keys(const RowBlock& block, int64_t p, const KeyBlock& keys, const Given& given,
                ForwardRoom& room) const {
    const Kernels& kernels = *use_.kernels;
    const AttentionSettings::Keys seen = room.seen.of(p, keys.begin, keys.begin + keys.count);
    const int64_t count = seen.end - seen.first, vectors = block.vectors_of(p), width = use_.width();
    if (count == 0) return;
    const float *k = room.k + (seen.first - keys.begin) * width, *v = room.v + (k - room.k);
    const Sums scores{room.scores, use_.panel()}, y = columns(room.y, p), q = columns(room.q, p);
    kernels.multiply({k, width, 1}, count, {q.data, q.row}, vectors, use_.sizes.size, false, scores);
    const bool moved =
        kernels.soften(scores, count, vectors, room.seen.lanes(p, seen), room.largest + p * use_.panel(),
                       room.sum + p * use_.panel(), room.shrink);
    if (moved) kernels.scale(y, use_.sizes.size, vectors, room.shrink);
    if (use_.settings.dropout) {
      draw_kept(block, p, seen, given, {room.kept, use_.panel()});
      kernels.weigh(scores, count, vectors, {room.kept, use_.panel()});
    }
    kernels.multiply({v, 1, width}, use_.sizes.size, {scores.data, scores.row}, vectors, count, true, y);
  }

  /// Divides by the sums. A query without keys has a sum of 0 and gets zeros.
  void finish(const RowBlock& block, ForwardRoom& room, void* y, float* log_sum) const {
    const AttentionSizes& e = use_.sizes;
    for (int64_t r = 0; r < block.count; ++r) {
      const int64_t place = e.log_sum_at(block.sample, block.head(r), block.query(r));
      const double sum = room.sum[r];
      if (log_sum != nullptr)
        log_sum[place] = sum == 0 ? kNothing : static_cast<float>(room.largest[r] + std::log(sum));
      room.sum[r] = sum == 0 ? 0.0f : static_cast<float>(1 / sum);
    }
    for (int64_t p = 0; p < block.panels(); ++p) {
      const Sums from = columns(room.y, p);
      use_.kernels->transpose_back({from.data, from.row}, block.rows_of(p), e.size,
                                   room.sum + p * use_.panel(),
                                   {room.rows + p * use_.panel() * use_.width(), use_.width()});
    }
    write_block(block, room.rows, y, e.heads * e.size);
  }

  Sums columns(float* all, int64_t panel) const {
    return {all + panel * use_.panel() * use_.width(), use_.panel()};
  }

  const Use use_;
  const int64_t room_floats_;
};

}  // namespace

const Kernels& best_kernels() {
  if (avx512_kernels() != nullptr && may_use(dnnl::cpu_isa::avx512_core)) return *avx512_kernels();
  if (avx2_kernels() != nullptr && may_use(dnnl::cpu_isa::avx2)) return *avx2_kernels();
  return plain_kernels();
}

std::unique_ptr<Forward> make_forward(const Use& use) {
  if (has_few_queries(use)) return make_forward_of_few(use);
  return std::make_unique<ForwardBlocks>(use);
}

}  // namespace trainer::cpu::attention
