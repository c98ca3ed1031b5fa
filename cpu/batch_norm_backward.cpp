// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <optional>

#include "core/graph/ops/batch_norm.h"
#include "cpu/batch_norm.h"
#include "cpu/table.h"
#include "cpu/two_passes.h"

namespace trainer::cpu {
namespace {

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
  BatchNormBackwardKernel(const BatchNormBackward& op, const ChannelBlocks& blocks,
                          const std::optional<RankTable>& table, Slots slots)
      : eps_(op.eps), residual_(op.residual), blocks_(blocks), table_(table), slots_(std::move(slots)) {}

  void run() override {
    const auto &in = slots_.inputs, &out = slots_.outputs;
    auto optional = [](void* const* slot) { return slot == nullptr ? nullptr : at<T>(slot); };
    const Operands<T> given{
        at<const T>(in[BatchNormBackward::kDy]), optional(in[BatchNormBackward::kOtherDy]),
        at<const T>(in[BatchNormBackward::kX]),
        in[BatchNormBackward::kMask] == nullptr ? nullptr : at<const int32_t>(in[BatchNormBackward::kMask])};
    T *dx = at<T>(out[BatchNormBackward::kDx]),
      *masked = residual_ ? optional(out[BatchNormBackward::kDresidual]) : nullptr;
    // The second pass reads the masked gradient if there is one: dy may have been overwritten by it.
    const Operands<T> kept = masked == nullptr ? given : Operands<T>{masked, nullptr, given.x, nullptr};
    auto apply = [&](const Piece& p, const GradientTerms& affine) {
      apply_slopes(affine, kept.from(p), dx + p.offset, p.count);
    };
    if (table_)
      return apply_pass(
          blocks_, [&](int64_t block, bool) { return of_ranks(block); }, apply);
    auto measure = [&](int64_t block, const Piece& p, Slopes& record) {
      const auto mean = spread_mean(blocks_, block, at<const float>(in[BatchNormBackward::kMean]));
      T* to = masked == nullptr ? nullptr : masked + p.offset;
      measure_slopes(mean.data(), given.from(p), to, p.count, record);
    };
    auto settle = [&](int64_t block, const Slopes* records, bool writes) {
      return of_rank(block, records, writes);
    };
    two_passes(blocks_, at<Slopes>(slots_.workspace), measure, settle, apply);
  }

 private:
  /// dx from the sums of each channel of a block, by lane, over this many values.
  template <class SumsOf>
  GradientTerms settled(int64_t block, double values, const SumsOf& sums) const {
    const auto& in = slots_.inputs;
    GradientTerms affine{.mean = spread_mean(blocks_, block, at<const float>(in[BatchNormBackward::kMean]))};
    for (int64_t lane = 0; lane < blocks_.lanes_used(block); ++lane) {
      const int64_t c = block * blocks_.lanes + lane;
      const double inverse = inverse_of(c),
                   scale = at<const float>(in[BatchNormBackward::kGamma])[c] * inverse;
      const auto [slope, normal] = sums(lane, c);
      for_each_column(blocks_, lane, [&, slope = slope, normal = normal](size_t s) {
        affine.scale[s] = static_cast<float>(scale);
        affine.pull[s] = static_cast<float>(-scale * inverse * normal / values);
        affine.shift[s] = static_cast<float>(-scale * slope / values);
      });
    }
    return affine;
  }

  /// 1 / sqrt(variance + eps)
  double inverse_of(int64_t c) const {
    return 1 / std::sqrt(at<const float>(slots_.inputs[BatchNormBackward::kVariance])[c] + eps_);
  }
  double values() const {
    const int64_t of_channel = blocks_.samples * blocks_.run / blocks_.lanes;
    return static_cast<double>(of_channel);
  }

  GradientTerms of_rank(int64_t block, const Slopes* records, bool writes) const {
    return settled(block, values(), [&](int64_t lane, int64_t c) {
      ChannelSums sums = sums_of(blocks_, records, lane);
      sums.product *= inverse_of(c);
      if (writes && slots_.outputs[BatchNormBackward::kDgamma] != nullptr)
        at<float>(slots_.outputs[BatchNormBackward::kDgamma])[c] = float(sums.product);
      if (writes && slots_.outputs[BatchNormBackward::kDbeta] != nullptr)
        at<float>(slots_.outputs[BatchNormBackward::kDbeta])[c] = float(sums.slope);
      return sums;
    });
  }

  GradientTerms of_ranks(int64_t block) const {
    const auto* table = at<const float>(slots_.inputs[BatchNormBackward::kTable]);
    return settled(block, values() * double(table_->ranks()), [&](int64_t, int64_t c) {
      ChannelSums all{};
      for (int64_t rank = 0; rank < table_->ranks(); ++rank) {
        all.slope += table_->first(table, rank, c);
        all.product += table_->second(table, rank, c);
      }
      return all;
    });
  }

  double eps_;
  bool residual_;
  ChannelBlocks blocks_;
  std::optional<RankTable> table_;
  Slots slots_;
};

Choice select_norm_backward(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_blocks(context, inputs, BatchNormBackward::kX);
  const ChannelBlocks blocks =
      *channel_blocks(choice.inputs[BatchNormBackward::kX], context.inputs[BatchNormBackward::kX].shape);
  if (!context.inputs[BatchNormBackward::kMask].shape.empty())
    choice.inputs[BatchNormBackward::kMask] = bits_layout(blocks);
  if (!context.has_input(BatchNormBackward::kTable)) choice.workspace_bytes = record_bytes<Slopes>(blocks);
  return choice;
}

std::unique_ptr<Kernel> compile_norm_backward(const OpContext& context, const Choice& choice,
                                              const Slots& slots) {
  const ChannelBlocks blocks =
      *channel_blocks(choice.inputs[BatchNormBackward::kX], context.inputs[BatchNormBackward::kX].shape);
  return with_storage(context.inputs[BatchNormBackward::kX].dtype,
                      [&](auto element) -> std::unique_ptr<Kernel> {
                        return std::make_unique<BatchNormBackwardKernel<decltype(element)>>(
                            static_cast<const BatchNormBackward&>(context.op), blocks,
                            table_of(context, BatchNormBackward::kTable), slots);
                      });
}

}  // namespace

void add_batch_norm_backward(Handlers& handlers) {
  handlers[typeid(BatchNormBackward)] = {select_norm_backward, compile_norm_backward, {}};
}

}  // namespace trainer::cpu
