// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "core/graph/ops/sync_batch_norm.h"
#include "cpu/batch_norm.h"
#include "cpu/table.h"
#include "cpu/two_passes.h"

namespace trainer::cpu {
namespace {

/// With `masked` the slope is written there: it is the residual's gradient.
template <class T>
TRAINER_MULTIVERSION void measure(const float* mean_of, const Operands<T>& in, T* masked, int64_t count,
                                  Slopes& totals) {
  totals = {};
  Row mean, slope, value;
  load(mean_of, mean);
  for (int64_t from = 0; from < count; from += kColumns * kRowsPerSum) {
    const int64_t end = std::min(count, from + kColumns * kRowsPerSum), whole = end - (end - from) % kColumns;
    Row sums[2] = {}, products[2] = {};  // two, since each addition waits for the previous one
    for (int64_t i = from; i < whole; i += 2 * kColumns) {
      for (int64_t k = 0; k < 2 && i + k * kColumns < whole; ++k) {
        const int64_t at = i + k * kColumns;
        load_slope(in, at, slope), load(in.x + at, value);
        if (masked != nullptr) store(slope, masked + at);
        sums[k] += slope;
        products[k] += slope * (value - mean);
      }
    }
    const Row sum = sums[0] + sums[1], product = products[0] + products[1];
    for (size_t s = 0; s < kColumns; ++s) totals.slope[s] += sum[s], totals.product[s] += product[s];
    for (int64_t i = whole; i < end; ++i) {
      const auto s = static_cast<size_t>(i - whole);
      const float g = in.slope(i);
      if (masked != nullptr) masked[i] = T(g);
      totals.slope[s] += g;
      totals.product[s] += static_cast<double>(g) * (float(in.x[i]) - mean_of[s]);
    }
  }
}

/// dy, x and the residual's gradient are stored as T.
template <class T>
class BatchNormSumsKernel final : public Kernel {
 public:
  BatchNormSumsKernel(double eps, const ChannelBlocks& blocks, const RankTable& table, Slots slots)
      : eps_(eps), blocks_(blocks), table_(table), slots_(std::move(slots)) {}

  void run() override {
    const auto &in = slots_.inputs, &out = slots_.outputs;
    auto optional = [](void* const* slot) { return slot == nullptr ? nullptr : at<T>(slot); };
    const Operands<T> given{
        at<const T>(in[BatchNormSums::kDy]), optional(in[BatchNormSums::kOtherDy]),
        at<const T>(in[BatchNormSums::kX]),
        in[BatchNormSums::kMask] == nullptr ? nullptr : at<const int32_t>(in[BatchNormSums::kMask])};
    T* masked = optional(slots_.output(BatchNormSums::kDresidual));
    auto* records = at<Slopes>(slots_.workspace);
    measure_pass(blocks_, records, [&](int64_t block, const Piece& p, Slopes& record) {
      const auto mean = spread_mean(blocks_, block, at<const float>(in[BatchNormSums::kMean]));
      T* to = masked == nullptr ? nullptr : masked + p.offset;
      measure_slopes(mean.data(), given.from(p), to, p.count, record);
    });
    for (int64_t c = 0; c < blocks_.channels; ++c) {
      const Slopes* of_block = records + c / blocks_.lanes * blocks_.pieces();
      const auto [slope, product] = sums_of(blocks_, of_block, c % blocks_.lanes);
      const double normal = product / std::sqrt(at<const float>(in[BatchNormSums::kVariance])[c] + eps_);
      table_.put(at<float>(out[BatchNormSums::kTable]), c, slope, normal);
      if (out[BatchNormSums::kDgamma] != nullptr)
        at<float>(out[BatchNormSums::kDgamma])[c] = static_cast<float>(normal);
      if (out[BatchNormSums::kDbeta] != nullptr)
        at<float>(out[BatchNormSums::kDbeta])[c] = static_cast<float>(slope);
    }
  }

 private:
  double eps_;
  ChannelBlocks blocks_;
  RankTable table_;
  Slots slots_;
};

Choice select_sums(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_blocks(context, inputs, BatchNormSums::kX);
  const ChannelBlocks blocks =
      *channel_blocks(choice.inputs[BatchNormSums::kX], context.inputs[BatchNormSums::kX].shape);
  if (!context.inputs[BatchNormSums::kMask].shape.empty())
    choice.inputs[BatchNormSums::kMask] = bits_layout(blocks);
  choice.workspace_bytes = record_bytes<Slopes>(blocks);
  return choice;
}

}  // namespace

void measure_slopes(const float* mean_of, const Operands<float>& in, float* masked, int64_t count,
                    Slopes& totals) {
  measure(mean_of, in, masked, count, totals);
}

void measure_slopes(const float* mean_of, const Operands<BFloat16>& in, BFloat16* masked, int64_t count,
                    Slopes& totals) {
  measure(mean_of, in, masked, count, totals);
}

ChannelSums sums_of(const ChannelBlocks& blocks, const Slopes* records, int64_t lane) {
  ChannelSums sums{};
  for (int64_t i = 0; i < blocks.pieces(); ++i) {
    for_each_column(blocks, lane, [&](size_t s) {
      sums.slope += records[i].slope[s];
      sums.product += records[i].product[s];
    });
  }
  return sums;
}

std::array<float, kColumns> spread_mean(const ChannelBlocks& blocks, int64_t block, const float* mean_of) {
  std::array<float, kColumns> columns{};
  for (int64_t lane = 0; lane < blocks.lanes_used(block); ++lane) {
    const float mean = mean_of[block * blocks.lanes + lane];
    for_each_column(blocks, lane, [&](size_t s) { columns[s] = mean; });
  }
  return columns;
}

void add_batch_norm_sums(Handlers& handlers) {
  const ProcessGroup* group = handlers.group();
  const auto compile = [group](const OpContext& context, const Choice& choice, const Slots& slots) {
    const ChannelBlocks blocks =
        *channel_blocks(choice.inputs[BatchNormSums::kX], context.inputs[BatchNormSums::kX].shape);
    return with_storage(context.inputs[BatchNormSums::kX].dtype,
                        [&](auto element) -> std::unique_ptr<Kernel> {
                          return std::make_unique<BatchNormSumsKernel<decltype(element)>>(
                              static_cast<const BatchNormSums&>(context.op).eps, blocks,
                              RankTable(context.outputs[BatchNormSums::kTable].shape, group), slots);
                        });
  };
  handlers[typeid(BatchNormSums)] = {select_sums, compile, {}};
}

}  // namespace trainer::cpu
