// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/attention/use.h"

// Reads heads from tensors into blocks of f32, and writes them back.

namespace trainer::cpu::attention {

/// Cuts a thread's workspace into arrays, each at a cache line. Without memory it only counts.
class Carver {
 public:
  explicit Carver(float* memory) : memory_(memory) {}
  float* take(int64_t floats) {
    float* taken = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (floats + kLine - 1) / kLine * kLine;
    return taken;
  }
  int32_t* take_integers(int64_t count) { return reinterpret_cast<int32_t*>(take(count)); }
  int64_t used() const { return used_; }

 private:
  static constexpr int64_t kLine = 16;
  float* memory_;
  int64_t used_ = 0;
};

/// The rows [begin, begin + count) of one group of one sample.
struct RowBlock {
  const Use& use;
  int64_t sample, kv_head, begin, count;

  int64_t head(int64_t r) const { return kv_head * use.group() + (begin + r) / use.sizes.queries; }
  int64_t query(int64_t r) const { return (begin + r) % use.sizes.queries; }
  int64_t panels() const { return (count + use.panel() - 1) / use.panel(); }
  int64_t rows_of(int64_t panel) const { return std::min(use.panel(), count - panel * use.panel()); }
  int64_t vectors_of(int64_t panel) const {
    return (rows_of(panel) + use.kernels->lanes - 1) / use.kernels->lanes;
  }

  /// Calls body(first row, rows, its head, its query) for each run of rows that are of one head.
  template <class Body>
  void for_each_run(const Body& body) const {
    for (int64_t r = 0; r < count;) {
      const int64_t run = std::min(count - r, use.sizes.queries - query(r));
      body(r, run, head(r), query(r));
      r += run;
    }
  }
};

/// The block's rows of a tensor of queries, or of y's shape, `row` elements from one query to the next ->
/// rows of use.width() floats, times `factor`, filled up with zeros. And the reverse, without a factor.
void read_block(const RowBlock& block, const void* tensor, int64_t row, float factor, float* to);
void write_block(const RowBlock& block, const float* from, void* tensor, int64_t row);

/// Some keys, or values, of a head.
struct KeyBlock {
  const Use& use;
  int64_t sample, kv_head, begin, count;
};
/// The same for a tensor of keys or values; its rows begin at `offset`.
void read_keys(const KeyBlock& block, const void* tensor, int64_t offset, float* to);
void write_keys(const KeyBlock& block, const float* from, void* tensor, int64_t offset);

/// The keys that the rows of a block see, lane by lane and panel by panel.
class SeenKeys {
 public:
  static constexpr int64_t kMostPanels = 16;

  SeenKeys(const Use& use, int64_t most_rows, Carver& carver)
      : use_(use),
        first_(carver.take_integers(most_rows)),
        end_(carver.take_integers(most_rows)),
        first_here_(carver.take_integers(use.panel())),
        end_here_(carver.take_integers(use.panel())) {}

  void find(const RowBlock& block, const Given& given);
  /// All keys that any row sees.
  AttentionSettings::Keys all() const { return all_; }
  /// Those of them in [begin, end) that a row of the panel sees; empty: begin = end.
  AttentionSettings::Keys of(int64_t panel, int64_t begin, int64_t end) const;
  /// The same lane by lane, counted from keys.first on. Valid until the next call.
  Seen lanes(int64_t panel, AttentionSettings::Keys keys) const;

 private:
  const Use& use_;
  int32_t *first_, *end_;            ///< of each row
  int32_t *first_here_, *end_here_;  ///< of each lane of a panel
  AttentionSettings::Keys all_{0, 0};
  AttentionSettings::Keys panels_[kMostPanels];
};

/// Dropout's factors of a panel's probabilities: kept[key][lane] for those keys.
void draw_kept(const RowBlock& block, int64_t panel, AttentionSettings::Keys keys, const Given& given,
               Sums kept);

}  // namespace trainer::cpu::attention
