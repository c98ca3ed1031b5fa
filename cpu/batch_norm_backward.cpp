// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include "core/graph/ops/batch_norm.h"
#include "cpu/table.h"
#include "cpu/two_walks.h"

namespace trainer::cpu {
namespace {

/// What the gradient reads: dy, perhaps a second one to be added, and where a relu masks them the bits of the
/// mask.
template <class T>
struct Operands {
  const T *dy, *dy2, *x;
  const int32_t* mask;

  Operands from(const Piece& p) const {
    return {dy + p.offset, dy2 == nullptr ? nullptr : dy2 + p.offset, x + p.offset,
            mask == nullptr ? nullptr : mask + p.bits};
  }
  float slope(int64_t i) const {
    const float sum = float(dy[i]) + (dy2 == nullptr ? 0.0f : float(dy2[i]));
    return mask != nullptr && !has_bit(mask, i / kColumns, static_cast<size_t>(i % kColumns)) ? 0.0f : sum;
  }
};

/// Sixteen of Operands::slope.
template <class T>
inline __attribute__((always_inline)) void load_slope(const Operands<T>& in, int64_t i, Row& slope) {
  load(in.dy + i, slope);
  if (in.dy2 != nullptr) {
    Row other;
    load(in.dy2 + i, other);
    slope += other;
  }
  if (in.mask != nullptr) keep_masked(in.mask, i / kColumns, slope);
}

/// Sums of the slope and of slope * (x - mean) of each column.
struct Slopes {
  std::array<double, kColumns> slope, product;
};

/// With `masked` the slope is written there: it is the residual's gradient.
template <class T>
TRAINER_MULTIVERSION void measure_slopes(const float* mean_of, const Operands<T>& in, T* masked,
                                         int64_t count, Slopes& totals) {
  totals = {};
  Row mean, slope, value;
  load(mean_of, mean);
  for (int64_t from = 0; from < count; from += kColumns * kRowsPerSum) {
    const int64_t end = std::min(count, from + kColumns * kRowsPerSum), whole = end - (end - from) % kColumns;
    Row sums[2] = {}, products[2] = {};  // two, since each addition waits for the one before
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

/// dx = scale * slope + pull * (x - mean) + shift
struct GradientTerms {
  std::array<float, kColumns> mean{}, scale{}, pull{}, shift{};
};

template <class T>
TRAINER_MULTIVERSION void apply_slopes(const GradientTerms& a, const Operands<T>& in, T* dx, int64_t count) {
  Row mean, scale, pull, shift, slope, value;
  load(a.mean.data(), mean), load(a.scale.data(), scale), load(a.pull.data(), pull),
      load(a.shift.data(), shift);
  const int64_t whole = count / kColumns * kColumns;
  for (int64_t i = 0; i < whole; i += kColumns) {
    load_slope(in, i, slope), load(in.x + i, value);
    value = scale * slope + pull * (value - mean) + shift;
    store(value, dx + i);
  }
  for (int64_t i = whole; i < count; ++i) {
    const auto s = static_cast<size_t>(i - whole);
    dx[i] = T(a.scale[s] * in.slope(i) + a.pull[s] * (float(in.x[i]) - a.mean[s]) + a.shift[s]);
  }
}

/// dy, x, dx and the residual's gradient are stored as T.
template <class T>
class BatchNormBackwardKernel final : public Kernel {
 public:
  BatchNormBackwardKernel(const BatchNormBackward& op, const ChannelBlocks& blocks, Slots slots)
      : eps_(op.eps), residual_(op.residual), blocks_(blocks), slots_(std::move(slots)) {}

  void run() override {
    const auto &in = slots_.inputs, &out = slots_.outputs;
    auto optional = [](void* const* slot) { return slot == nullptr ? nullptr : at<T>(slot); };
    const Operands<T> given{at<const T>(in[0]), optional(in[6]), at<const T>(in[1]),
                            in[5] == nullptr ? nullptr : at<const int32_t>(in[5])};
    T *dx = at<T>(out[0]), *masked = residual_ ? optional(out[3]) : nullptr;
    // The second walk reads the masked gradient where there is one: dy may have been overwritten by it.
    const Operands<T> kept = masked == nullptr ? given : Operands<T>{masked, nullptr, given.x, nullptr};
    auto measure = [&](int64_t block, const Piece& p, Slopes& record) {
      const auto mean = spread_mean(block);
      T* to = masked == nullptr ? nullptr : masked + p.offset;
      measure_slopes(mean.data(), given.from(p), to, p.count, record);
    };
    auto settle = [&](int64_t block, const Slopes* records, bool writes) {
      return settled(block, records, writes);
    };
    auto apply = [&](const Piece& p, const GradientTerms& affine) {
      apply_slopes(affine, kept.from(p), dx + p.offset, p.count);
    };
    two_walks(blocks_, at<Slopes>(slots_.workspace), measure, settle, apply);
  }

 private:
  /// The mean of each column of a block.
  std::array<float, kColumns> spread_mean(int64_t block) const {
    std::array<float, kColumns> columns{};
    for (int64_t lane = 0; lane < blocks_.lanes_used(block); ++lane) {
      const float mean = at<const float>(slots_.inputs[3])[block * blocks_.lanes + lane];
      for_each_column(blocks_, lane, [&](size_t s) { columns[s] = mean; });
    }
    return columns;
  }

  GradientTerms settled(int64_t block, const Slopes* records, bool writes) const {
    const auto &in = slots_.inputs, &out = slots_.outputs;
    const int64_t area = blocks_.run / blocks_.lanes;
    const auto values = static_cast<double>(blocks_.samples * area);
    GradientTerms affine{.mean = spread_mean(block)};
    for (int64_t lane = 0; lane < blocks_.lanes_used(block); ++lane) {
      double sum = 0, product = 0;
      for (int64_t i = 0; i < blocks_.pieces(); ++i) {
        for_each_column(blocks_, lane,
                        [&](size_t s) { sum += records[i].slope[s], product += records[i].product[s]; });
      }
      const int64_t c = block * blocks_.lanes + lane;
      const double inverse = 1 / std::sqrt(at<const float>(in[4])[c] + eps_);
      const double scale = at<const float>(in[2])[c] * inverse;
      if (writes && out[1] != nullptr) at<float>(out[1])[c] = static_cast<float>(product * inverse);
      if (writes && out[2] != nullptr) at<float>(out[2])[c] = static_cast<float>(sum);
      for_each_column(blocks_, lane, [&](size_t s) {
        affine.scale[s] = static_cast<float>(scale);
        affine.pull[s] = static_cast<float>(-scale * inverse * inverse * product / values);
        affine.shift[s] = static_cast<float>(-scale * sum / values);
      });
    }
    return affine;
  }

  double eps_;
  bool residual_;
  ChannelBlocks blocks_;
  Slots slots_;
};

Choice select_norm_backward(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_blocks(context, inputs, 1);
  const ChannelBlocks blocks = *channel_blocks(choice.inputs[1], context.inputs[1].shape);
  if (!context.inputs[5].shape.empty()) choice.inputs[5] = bits_layout(blocks);
  choice.workspace_bytes = record_bytes<Slopes>(blocks);
  return choice;
}

std::unique_ptr<Kernel> compile_norm_backward(const OpContext& context, const Choice& choice,
                                              const Slots& slots) {
  const ChannelBlocks blocks = *channel_blocks(choice.inputs[1], context.inputs[1].shape);
  return with_storage(context.inputs[1].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    return std::make_unique<BatchNormBackwardKernel<decltype(element)>>(
        static_cast<const BatchNormBackward&>(context.op), blocks, slots);
  });
}

}  // namespace

void add_batch_norm_backward(Handlers& handlers) {
  handlers[typeid(BatchNormBackward)] = {select_norm_backward, compile_norm_backward, {}};
}

}  // namespace trainer::cpu
