// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "core/graph/ops/sync_batch_norm.h"
#include "cpu/batch_norm.h"
#include "cpu/table.h"
#include "cpu/two_passes.h"

namespace trainer::cpu {
namespace {

/// Independent sums of a loop, since each addition waits for the previous one.
constexpr int64_t kChains = 4;

/// Mean and sum of squared deviations of the columns of `rows` rows.
template <class T>
inline __attribute__((always_inline)) void moments_of_rows(const T* x, int64_t rows, Row& mean,
                                                           Row& squares) {
  Row sums[kChains] = {}, deviations[kChains] = {}, value;
  const int64_t even = rows / kChains * kChains;
  for (int64_t r = 0; r < even; r += kChains) {
    for (int64_t k = 0; k < kChains; ++k) {
      load(x + (r + k) * kColumns, value);
      sums[k] += value;
    }
  }
  for (int64_t r = even; r < rows; ++r) {
    load(x + r * kColumns, value);
    sums[0] += value;
  }
  mean = ((sums[0] + sums[1]) + (sums[2] + sums[3])) / static_cast<float>(rows);
  for (int64_t r = 0; r < even; r += kChains) {
    for (int64_t k = 0; k < kChains; ++k) {
      load(x + (r + k) * kColumns, value);
      deviations[k] += (value - mean) * (value - mean);
    }
  }
  for (int64_t r = even; r < rows; ++r) {
    load(x + r * kColumns, value);
    deviations[0] += (value - mean) * (value - mean);
  }
  squares = (deviations[0] + deviations[1]) + (deviations[2] + deviations[3]);
}

template <class T>
TRAINER_MULTIVERSION void measure(const T* x, int64_t count, Moments& moments) {
  moments = {};
  const int64_t rows = count / kColumns;
  for (int64_t first = 0; first < rows; first += kRowsPerSum) {
    const int64_t size = std::min(kRowsPerSum, rows - first);
    Row mean, squares;
    moments_of_rows(x + first * kColumns, size, mean, squares);
    // Moments::merge for all columns at once: all contain `first` rows.
    const double share = static_cast<double>(size) / static_cast<double>(first + size);
    for (size_t s = 0; s < kColumns; ++s) {
      const double delta = mean[s] - moments.mean[s];
      moments.mean[s] += delta * share;
      moments.squares[s] += squares[s] + delta * delta * static_cast<double>(first) * share;
    }
  }
  moments.count.fill(static_cast<double>(rows));
  for (int64_t i = rows * kColumns; i < count; ++i)
    moments.merge(static_cast<size_t>(i % kColumns), 1, float(x[i]), 0);
}

std::unique_ptr<Kernel> compile_moments(const OpContext& context, const Choice& choice, const Slots& slots,
                                        const ProcessGroup* group) {
  const ChannelBlocks blocks =
      *channel_blocks(choice.inputs[BatchNormMoments::kX], context.inputs[BatchNormMoments::kX].shape);
  return with_storage(context.inputs[BatchNormMoments::kX].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, in = slots.inputs, out = slots.outputs, workspace = slots.workspace,
                   table = RankTable(context.outputs[BatchNormMoments::kTable].shape, group)] {
      const T* x = at<const T>(in[BatchNormMoments::kX]);
      auto* records = at<Moments>(workspace);
      measure_pass(blocks, records, [&](int64_t, const Piece& p, Moments& record) {
        measure_moments(x + p.offset, p.count, record);
      });
      for (int64_t c = 0; c < blocks.channels; ++c) {
        const Moments* of_block = records + c / blocks.lanes * blocks.pieces();
        const auto [mean, variance] = moments_of(blocks, of_block, c % blocks.lanes);
        table.put(at<float>(out[BatchNormMoments::kTable]), c, mean, variance);
      }
    });
  });
}

Choice select_moments(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_blocks(context, inputs, BatchNormMoments::kX);
  choice.workspace_bytes = record_bytes<Moments>(
      *channel_blocks(choice.inputs[BatchNormMoments::kX], context.inputs[BatchNormMoments::kX].shape));
  return choice;
}

}  // namespace

void measure_moments(const float* x, int64_t count, Moments& moments) {
  measure(x, count, moments);
}

void measure_moments(const BFloat16* x, int64_t count, Moments& moments) {
  measure(x, count, moments);
}

ChannelMoments moments_of(const ChannelBlocks& blocks, const Moments* records, int64_t lane) {
  Moments all{};
  for (int64_t i = 0; i < blocks.pieces(); ++i) {
    for_each_column(blocks, lane, [&](size_t s) {
      all.merge(0, records[i].count[s], records[i].mean[s], records[i].squares[s]);
    });
  }
  return {all.mean[0], all.squares[0] / all.count[0]};
}

void add_batch_norm_moments(Handlers& handlers) {
  const ProcessGroup* group = handlers.group();
  const auto compile = [group](const OpContext& context, const Choice& choice, const Slots& slots) {
    return compile_moments(context, choice, slots, group);
  };
  handlers[typeid(BatchNormMoments)] = {select_moments, compile, {}};
}

}  // namespace trainer::cpu
