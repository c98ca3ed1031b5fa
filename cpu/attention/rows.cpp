// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/rows.h"

#include "core/base/bfloat16.h"
#include "core/base/multiversion.h"
#include "cpu/dropout.h"
#include "cpu/handler.h"

namespace trainer::cpu::attention {
namespace {

template <class T>
TRAINER_MULTIVERSION void read_rows(const T* from, int64_t from_row, int64_t count, int64_t size,
                                    float factor, float* to, int64_t width) {
  for (int64_t r = 0; r < count; ++r, from += from_row, to += width) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) to[i] = factor * float(from[i]);
    for (int64_t i = size; i < width; ++i) to[i] = 0;
  }
}

template <class T>
TRAINER_MULTIVERSION void write_rows(const float* from, int64_t width, int64_t count, int64_t size, T* to,
                                     int64_t to_row) {
  for (int64_t r = 0; r < count; ++r, from += width, to += to_row) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) put(from[i], to[i]);
  }
}

/// Offset of a block's keys in their tensor, in elements.
int64_t begin_of(const KeyBlock& block, int64_t offset) {
  const AttentionSizes& e = block.use.sizes;
  return (block.sample * e.keys + block.begin) * e.kv_row() + offset + block.kv_head * e.size;
}

/// Draws the factors of elements [begin, begin + count) of a sample into every `stride`-th float.
TRAINER_MULTIVERSION void draw_row(DropoutSettings settings, int64_t begin, int64_t count, int32_t sample,
                                   int32_t step, float* to, int64_t stride) {
  alignas(64) float factors[kDrawnElements];
  const int64_t end = begin + count;
  for (int64_t block = begin / 4; 4 * block < end; block += kDrawnBlocks) {
    draw_factors(settings, block, sample, step, factors);
    const int64_t from = std::max(begin, 4 * block), until = std::min(end, 4 * block + kDrawnElements);
    for (int64_t i = from; i < until; ++i) to[(i - begin) * stride] = factors[i - 4 * block];
  }
}

AttentionSettings::Keys joined(AttentionSettings::Keys a, AttentionSettings::Keys b) {
  if (a.first >= a.end) return b;
  if (b.first >= b.end) return a;
  return {std::min(a.first, b.first), std::max(a.end, b.end)};
}

int64_t clamped(int64_t key, AttentionSettings::Keys keys) {
  return std::clamp(key, keys.first, keys.end) - keys.first;
}

}  // namespace

void read_block(const RowBlock& block, const void* tensor, int64_t row, float factor, float* to) {
  const AttentionSizes& e = block.use.sizes;
  const int64_t width = block.use.width();
  with_storage(block.use.dtype, [&](auto element) {
    block.for_each_run([&](int64_t r, int64_t count, int64_t head, int64_t query) {
      const auto* from = static_cast<const decltype(element)*>(tensor) +
                         (block.sample * e.queries + query) * row + head * e.size;
      read_rows(from, row, count, e.size, factor, to + r * width, width);
    });
  });
}

void write_block(const RowBlock& block, const float* from, void* tensor, int64_t row) {
  const AttentionSizes& e = block.use.sizes;
  const int64_t width = block.use.width();
  with_storage(block.use.dtype, [&](auto element) {
    block.for_each_run([&](int64_t r, int64_t count, int64_t head, int64_t query) {
      auto* to =
          static_cast<decltype(element)*>(tensor) + (block.sample * e.queries + query) * row + head * e.size;
      write_rows(from + r * width, width, count, e.size, to, row);
    });
  });
}

void read_keys(const KeyBlock& block, const void* tensor, int64_t offset, float* to) {
  const Use& use = block.use;
  with_storage(use.dtype, [&](auto element) {
    const auto* from = static_cast<const decltype(element)*>(tensor) + begin_of(block, offset);
    read_rows(from, use.sizes.kv_row(), block.count, use.sizes.size, 1.0f, to, use.width());
  });
}

void write_keys(const KeyBlock& block, const float* from, void* tensor, int64_t offset) {
  const Use& use = block.use;
  with_storage(use.dtype, [&](auto element) {
    auto* to = static_cast<decltype(element)*>(tensor) + begin_of(block, offset);
    write_rows(from, use.width(), block.count, use.sizes.size, to, use.sizes.kv_row());
  });
}

void SeenKeys::find(const RowBlock& block, const Given& given) {
  const AttentionSizes& e = use_.sizes;
  const int64_t position = given.first == nullptr ? 0 : *given.first;
  all_ = {0, 0};
  for (int64_t panel = 0; panel < block.panels(); ++panel) {
    AttentionSettings::Keys of_panel{0, 0};
    const int64_t begin = panel * use_.panel();
    for (int64_t r = begin; r < begin + use_.panel(); ++r) {
      AttentionSettings::Keys keys{0, 0};  // of a lane without a query: none
      if (r < block.count) {
        const int64_t query = block.query(r);
        const int64_t start = given.start == nullptr ? 0 : given.start[block.sample * e.queries + query];
        keys = use_.settings.keys_of(position + query, e.keys, start);
        keys.first = std::min(keys.first, keys.end);
      }
      first_[r] = static_cast<int32_t>(keys.first);
      end_[r] = static_cast<int32_t>(keys.end);
      of_panel = joined(of_panel, keys);
    }
    panels_[panel] = of_panel;
    all_ = joined(all_, of_panel);
  }
}

AttentionSettings::Keys SeenKeys::of(int64_t panel, int64_t begin, int64_t end) const {
  const AttentionSettings::Keys keys = panels_[panel];
  const int64_t first = std::max(keys.first, begin), last = std::min(keys.end, end);
  return first < last ? AttentionSettings::Keys{first, last} : AttentionSettings::Keys{begin, begin};
}

Seen SeenKeys::lanes(int64_t panel, AttentionSettings::Keys keys) const {
  Seen seen{.first = first_here_, .end = end_here_, .all_first = 0, .all_end = keys.end - keys.first};
  for (int64_t lane = 0; lane < use_.panel(); ++lane) {
    const int64_t r = panel * use_.panel() + lane, first = clamped(first_[r], keys),
                  end = clamped(end_[r], keys);
    first_here_[lane] = static_cast<int32_t>(first);
    end_here_[lane] = static_cast<int32_t>(end);
    seen.all_first = std::max(seen.all_first, first);
    seen.all_end = std::min(seen.all_end, end);
  }
  return seen;
}

void draw_kept(const RowBlock& block, int64_t panel, AttentionSettings::Keys keys, const Given& given,
               Sums kept) {
  const AttentionSizes& e = block.use.sizes;
  for (int64_t lane = 0; lane < block.rows_of(panel); ++lane) {
    const int64_t r = panel * block.use.panel() + lane;
    const int64_t element = AttentionSettings::element(block.use.settings.first_head + block.head(r),
                                                       block.query(r), keys.first, e.queries, e.keys);
    draw_row(*block.use.settings.dropout, element, keys.end - keys.first, given.sample[block.sample],
             *given.step, kept.data + lane, kept.row);
  }
}

}  // namespace trainer::cpu::attention
