// SPDX-License-Identifier: Apache-2.0
#include <omp.h>

#include "cpu/attention/rows.h"

namespace trainer::cpu::attention {
namespace {

/// Buffers of one thread. Columns are the transposed rows of a panel: [element][lane].
struct BackwardRoom {
  static constexpr int64_t kRows = 64, kKeys = 64;

  BackwardRoom(const Use& use, float* memory) : carver(memory), seen(use, kRows, carver) {
    const int64_t width = use.width();
    for (float** rows : {&q, &dy, &y, &q_columns, &dy_columns, &dq_columns})
      *rows = carver.take(kRows * width);
    for (float** rows : {&k, &v}) *rows = carver.take(kKeys * width);
    for (float** block : {&p, &ds}) *block = carver.take(kKeys * kRows);
    kept = carver.take(use.settings.dropout ? kKeys * use.panel() : 0);
    log_sum = carver.take(kRows);
    delta = carver.take(kRows);
    factor = carver.take(kRows);
  }

  Carver carver;
  SeenKeys seen;
  float *q, *dy, *y;  ///< rows as they are stored; q times the scale
  float *q_columns, *dy_columns, *dq_columns;
  float *k, *v;                     ///< rows
  float *p, *ds;                    ///< [key][row]: scores and dy . v, then p and ds
  float* kept;                      ///< [key][lane]
  float *log_sum, *delta, *factor;  ///< of each row
};

/// Sums of dk and dv for all keys of a head, [key][element].
struct KeySums {
  float *dk, *dv;
};

/// With p the probabilities, f dropout's factors and dp = f * (dy . v):
/// dv = sum of f p dy, ds = p * (dp - delta), delta = y . dy; dq = scale * sum of ds k, dk = scale * sum of
/// ds q.
class BackwardBlocks final : public Backward {
 public:
  explicit BackwardBlocks(const Use& use)
      : use_(use),
        heads_(use.sizes.samples * use.sizes.kv_heads),
        blocks_((use.rows() + BackwardRoom::kRows - 1) / BackwardRoom::kRows),
        chunks_(chunks(use, heads_, blocks_)),
        room_floats_(BackwardRoom(use, nullptr).carver.used()),
        sums_floats_(2 * use.sizes.keys * use.width()) {}

  int64_t workspace_floats() const override {
    return use_.threads * room_floats_ + (chunks_ > 1 ? heads_ * chunks_ : use_.threads) * sums_floats_;
  }

  void run(const GivenBackward& given, const Gradients& gradients, float* workspace) const override {
    float* sums_begin = workspace + use_.threads * room_floats_;
    const int64_t pieces = heads_ * chunks_;
#pragma omp parallel for schedule(dynamic, 1) num_threads(use_.threads) if (pieces > 1)
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t thread = omp_get_thread_num();
      BackwardRoom room(use_, workspace + thread * room_floats_);
      const KeySums sums = sums_at(sums_begin, chunks_ > 1 ? piece : thread);
      add_chunk(piece, given, gradients, room, sums);
      if (chunks_ == 1) write(piece, 0, use_.sizes.keys, sums, gradients);
    }
    if (chunks_ > 1) add_chunks(sums_begin, gradients);
  }

 private:
  /// Parts of each head's rows: enough to give all threads work, twice.
  static int64_t chunks(const Use& use, int64_t heads, int64_t blocks) {
    const int64_t wanted = 2 * use.threads;
    return heads >= wanted ? 1 : std::min(blocks, (wanted + heads - 1) / heads);
  }

  KeySums sums_at(float* begin, int64_t number) const {
    float* dk = begin + number * sums_floats_;
    return {dk, dk + sums_floats_ / 2};
  }

  /// Every chunks_-th block of rows, so that under a causal mask all chunks have about the same work.
  void add_chunk(int64_t piece, const GivenBackward& given, const Gradients& gradients, BackwardRoom& room,
                 const KeySums& sums) const {
    const int64_t head = piece / chunks_;
    std::fill_n(sums.dk, sums_floats_, 0.0f);
    for (int64_t b = piece % chunks_; b < blocks_; b += chunks_) {
      const int64_t begin = b * BackwardRoom::kRows;
      const RowBlock block{.use = use_,
                           .sample = head / use_.sizes.kv_heads,
                           .kv_head = head % use_.sizes.kv_heads,
                           .begin = begin,
                           .count = std::min(BackwardRoom::kRows, use_.rows() - begin)};
      read(block, given, room);
      add_rows(block, given.forward, room, sums);
      if (gradients.dq != nullptr) write_dq(block, room, gradients);
    }
  }

  void read(const RowBlock& block, const GivenBackward& given, BackwardRoom& room) const {
    const AttentionSizes& e = use_.sizes;
    const int64_t rows = block.panels() * use_.panel(), width = use_.width();
    const auto scale = static_cast<float>(use_.settings.factor(e.size));
    read_block(block, given.forward.q, e.q_row(), scale, room.q);
    read_block(block, given.dy, e.heads * e.size, 1.0f, room.dy);
    read_block(block, given.y, e.heads * e.size, 1.0f, room.y);
    for (float* padded : {room.q, room.dy})
      std::fill(padded + block.count * width, padded + rows * width, 0.0f);
    std::fill_n(room.log_sum, rows, 0.0f);
    std::fill_n(room.delta, rows, 0.0f);
    std::fill_n(room.factor, rows, scale);
    for (int64_t r = 0; r < block.count; ++r) {
      room.log_sum[r] = given.log_sum[e.log_sum_at(block.sample, block.head(r), block.query(r))];
      room.delta[r] = dot(room.dy + r * width, room.y + r * width, width);
    }
    for (int64_t p = 0; p < block.panels(); ++p) {
      const int64_t at = p * use_.panel() * width;
      use_.kernels->transpose({room.q + at, width}, use_.panel(), e.size, columns(room.q_columns, p));
      use_.kernels->transpose({room.dy + at, width}, use_.panel(), e.size, columns(room.dy_columns, p));
    }
    std::fill_n(room.dq_columns, rows * width, 0.0f);
    room.seen.find(block, given.forward);
  }

  void add_rows(const RowBlock& block, const Given& given, BackwardRoom& room, const KeySums& sums) const {
    const AttentionSizes& e = use_.sizes;
    const AttentionSettings::Keys all = room.seen.all();
    for (int64_t key = all.first; key < all.end; key += BackwardRoom::kKeys) {
      const KeyBlock keys{.use = use_,
                          .sample = block.sample,
                          .kv_head = block.kv_head,
                          .begin = key,
                          .count = std::min(BackwardRoom::kKeys, all.end - key)};
      read_keys(keys, given.k, e.k_begin(), room.k);
      read_keys(keys, given.v, e.v_begin(), room.v);
      for (int64_t p = 0; p < block.panels(); ++p) differentiate(block, p, keys, given, room);
      add_to_keys(block, keys, room, sums);
    }
  }

  /// p and ds of a panel and some keys, zeros if it sees none of them; and its part of dq.
  void differentiate(const RowBlock& block, int64_t p, const KeyBlock& keys, const Given& given,
                     BackwardRoom& room) const {
    const Kernels& kernels = *use_.kernels;
    const AttentionSettings::Keys seen = room.seen.of(p, keys.begin, keys.begin + keys.count);
    const int64_t first = seen.first - keys.begin, count = seen.end - seen.first, width = use_.width();
    const int64_t lanes = p * use_.panel(), size = use_.sizes.size;
    constexpr int64_t kRow = BackwardRoom::kRows;
    clear(room, lanes, 0, first);
    clear(room, lanes, first + count, keys.count);
    if (count == 0) return;
    const Sums probabilities{room.p + first * kRow + lanes, kRow}, ds{room.ds + first * kRow + lanes, kRow};
    const float *k = room.k + first * width, *v = room.v + first * width;
    const Sums q = columns(room.q_columns, p), dy = columns(room.dy_columns, p);
    kernels.multiply({k, width, 1}, count, {q.data, q.row}, 2, size, false, probabilities);
    kernels.multiply({v, width, 1}, count, {dy.data, dy.row}, 2, size, false, ds);
    const Rows kept{room.kept, use_.panel()};
    if (use_.settings.dropout) draw_kept(block, p, seen, given, {room.kept, use_.panel()});
    kernels.differentiate(probabilities, ds, count, 2, room.seen.lanes(p, seen), room.log_sum + lanes,
                          room.delta + lanes, use_.settings.dropout ? &kept : nullptr);
    kernels.multiply({k, 1, width}, size, {ds.data, ds.row}, 2, count, true, columns(room.dq_columns, p));
  }

  /// Zeros for a panel and the keys [begin, end).
  void clear(BackwardRoom& room, int64_t lanes, int64_t begin, int64_t end) const {
    for (int64_t key = begin; key < end; ++key) {
      for (float* block : {room.p, room.ds})
        std::fill_n(block + key * BackwardRoom::kRows + lanes, use_.panel(), 0.0f);
    }
  }

  /// Adds to dk and dv, leaving out panels that see none of some keys.
  void add_to_keys(const RowBlock& block, const KeyBlock& keys, const BackwardRoom& room,
                   const KeySums& sums) const {
    const int64_t step = use_.panel(), width = use_.width();
    constexpr int64_t kRow = BackwardRoom::kRows;
    for (int64_t begin = 0; begin < keys.count;) {
      const Panels panels = panels_of(block, keys, room, begin);
      int64_t end = std::min(begin + step, keys.count);
      while (end < keys.count && panels_of(block, keys, room, end) == panels)
        end = std::min(end + step, keys.count);
      const int64_t row = panels.first * use_.panel(), rows = panels.end * use_.panel() - row;
      const int64_t from = begin * kRow + row, to = (keys.begin + begin) * width;
      const int64_t vectors = width / use_.kernels->lanes;
      if (rows > 0) {
        use_.kernels->multiply({room.p + from, kRow, 1}, end - begin, {room.dy + row * width, width}, vectors,
                               rows, true, {sums.dv + to, width});
        use_.kernels->multiply({room.ds + from, kRow, 1}, end - begin, {room.q + row * width, width}, vectors,
                               rows, true, {sums.dk + to, width});
      }
      begin = end;
    }
  }

  /// The panels that contain all queries that see any of the keys from `begin` on, a panel's width of them.
  struct Panels {
    int64_t first, end;
    bool operator==(const Panels&) const = default;
  };
  Panels panels_of(const RowBlock& block, const KeyBlock& keys, const BackwardRoom& room,
                   int64_t begin) const {
    Panels found{0, 0};
    const int64_t end = std::min(begin + use_.panel(), keys.count);
    for (int64_t p = 0; p < block.panels(); ++p) {
      const AttentionSettings::Keys seen = room.seen.of(p, keys.begin + begin, keys.begin + end);
      if (seen.first == seen.end) continue;
      found = {found.end == 0 ? p : found.first, p + 1};
    }
    return found;
  }

  void write_dq(const RowBlock& block, BackwardRoom& room, const Gradients& gradients) const {
    const AttentionSizes& e = use_.sizes;
    for (int64_t p = 0; p < block.panels(); ++p) {
      const Sums from = columns(room.dq_columns, p);
      use_.kernels->transpose_back({from.data, from.row}, block.rows_of(p), e.size,
                                   room.factor + p * use_.panel(),
                                   {room.y + p * use_.panel() * use_.width(), use_.width()});
    }
    write_block(block, room.y, gradients.dq, e.q_row());
  }

  void write(int64_t head, int64_t begin, int64_t count, const KeySums& sums,
             const Gradients& gradients) const {
    const AttentionSizes& e = use_.sizes;
    const KeyBlock keys{.use = use_,
                        .sample = head / e.kv_heads,
                        .kv_head = head % e.kv_heads,
                        .begin = begin,
                        .count = count};
    const int64_t at = begin * use_.width();
    if (gradients.dk != nullptr) write_keys(keys, sums.dk + at, gradients.dk, e.k_begin());
    if (gradients.dv != nullptr) write_keys(keys, sums.dv + at, gradients.dv, e.v_begin());
  }

  /// Adds the sums of each head's chunks, in order, to its first one's.
  void add_chunks(float* sums_begin, const Gradients& gradients) const {
    const int64_t keys = use_.sizes.keys, blocks = (keys + kKeyBlock - 1) / kKeyBlock;
#pragma omp parallel for schedule(static) num_threads(use_.threads)
    for (int64_t piece = 0; piece < heads_ * blocks; ++piece) {
      const int64_t head = piece / blocks, begin = piece % blocks * kKeyBlock,
                    count = std::min(kKeyBlock, keys - begin);
      const KeySums total = sums_at(sums_begin, head * chunks_);
      for (int64_t chunk = 1; chunk < chunks_; ++chunk) {
        const KeySums part = sums_at(sums_begin, head * chunks_ + chunk);
        add(part.dk + begin * use_.width(), count * use_.width(), total.dk + begin * use_.width());
        add(part.dv + begin * use_.width(), count * use_.width(), total.dv + begin * use_.width());
      }
      write(head, begin, count, total, gradients);
    }
  }

  static void add(const float* part, int64_t count, float* total) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) total[i] += part[i];
  }

  static float dot(const float* a, const float* b, int64_t count) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
    return sum;
  }

  Sums columns(float* all, int64_t panel) const {
    return {all + panel * use_.panel() * use_.width(), use_.panel()};
  }

  const Use use_;
  const int64_t heads_, blocks_, chunks_;  ///< samples * kv_heads; blocks of a head's rows; chunks of those
  const int64_t room_floats_, sums_floats_;
};

}  // namespace

std::unique_ptr<Backward> make_backward(const Use& use) {
  return std::make_unique<BackwardBlocks>(use);
}

}  // namespace trainer::cpu::attention
