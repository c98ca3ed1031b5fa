// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "cpu/batch_norm.h"
#include "cpu/table.h"
#include "cpu/two_passes.h"

namespace trainer::cpu {
namespace {

/// Coefficients for the columns of a block: y = (x - mean) * scale + shift.
struct Affine {
  std::array<float, kColumns> mean{}, scale{}, shift{};
};

/// y clamped to 0 and `ceiling` with `relu`; a mask, if needed, gets a bit for each y that passes_clamp().
template <class T>
TRAINER_MULTIVERSION void apply_affine(const Affine& a, const T* x, const T* residual, bool relu,
                                       float ceiling, T* y, int32_t* mask, int64_t count) {
  Row mean, scale, shift, value, added;
  const Row highest = Row{} + ceiling;
  const bool is_capped = ceiling < std::numeric_limits<float>::infinity();
  load(a.mean.data(), mean), load(a.scale.data(), scale), load(a.shift.data(), shift);
  const int64_t rows = count / kColumns, whole = rows * kColumns;
  for (int64_t first = 0; first < rows; first += kRowsOfBits) {
    Bits bits{};
    for (int64_t r = first; r < std::min(rows, first + kRowsOfBits); ++r) {
      load(x + r * kColumns, value);
      value = (value - mean) * scale + shift;
      if (residual != nullptr) {
        load(residual + r * kColumns, added);
        value += added;
      }
      if (relu) {
        Bits passes = ~(value <= 0.0f);  // NaN passes
        value = value < 0.0f ? Row{} : value;
        if (is_capped) {
          passes &= ~(value >= highest);
          value = value > highest ? highest : value;
        }
        bits |= passes & (1 << (r - first));
      }
      store(value, y + r * kColumns);
    }
    if (mask != nullptr) std::memcpy(mask + first / kRowsOfBits * kColumns, &bits, sizeof bits);
  }
  if (mask != nullptr && rows % kRowsOfBits == 0 && whole < count) {
    std::memset(mask + rows / kRowsOfBits * kColumns, 0, sizeof(Bits));
  }
  for (int64_t i = whole; i < count; ++i) {
    const auto s = static_cast<size_t>(i - whole);
    float v = (float(x[i]) - a.mean[s]) * a.scale[s] + a.shift[s];
    if (residual != nullptr) v += float(residual[i]);
    y[i] = T(!relu ? v : v < 0.0f ? 0.0f : v > ceiling ? ceiling : v);
    if (mask != nullptr && passes_clamp(v, ceiling))
      mask[rows / kRowsOfBits * kColumns + i - whole] |= 1 << rows % kRowsOfBits;
  }
}

/// x, residual and y are stored as T.
template <class T>
class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(const BatchNorm& op, const ChannelBlocks& blocks, const std::optional<RankTable>& table,
                  Slots slots)
      : eps_(op.eps),
        relu_(op.relu),
        ceiling_(static_cast<float>(op.ceiling)),
        blocks_(blocks),
        table_(table),
        slots_(std::move(slots)) {}

  void run() override {
    const auto &in = slots_.inputs, &out = slots_.outputs;
    const T *x = at<const T>(in[BatchNorm::kX]),
            *residual = in[BatchNorm::kResidual] == nullptr ? nullptr : at<const T>(in[BatchNorm::kResidual]);
    T* y = at<T>(out[BatchNorm::kY]);
    int32_t* mask = slots_.output(BatchNorm::kMask) == nullptr ? nullptr : at<int32_t>(out[BatchNorm::kMask]);
    auto apply = [&](const Piece& p, const Affine& affine) {
      apply_affine(affine, x + p.offset, residual == nullptr ? nullptr : residual + p.offset, relu_, ceiling_,
                   y + p.offset, mask == nullptr ? nullptr : mask + p.bits, p.count);
    };
    if (table_) {
      return apply_pass(
          blocks_, [&](int64_t block, bool writes) { return of_ranks(block, writes); }, apply);
    }
    auto measure = [&](int64_t, const Piece& p, Moments& record) {
      measure_moments(x + p.offset, p.count, record);
    };
    auto settle = [&](int64_t block, const Moments* records, bool writes) {
      return settled(block, writes, [&](int64_t lane) { return moments_of(blocks_, records, lane); });
    };
    two_passes(blocks_, at<Moments>(slots_.workspace), measure, settle, apply);
  }

 private:
  /// From the moments of each channel of a block, by lane.
  template <class MomentsOf>
  Affine settled(int64_t block, bool writes, const MomentsOf& moments) const {
    const auto &in = slots_.inputs, &out = slots_.outputs;
    Affine affine;
    for (int64_t lane = 0; lane < blocks_.lanes_used(block); ++lane) {
      const auto [mean, variance] = moments(lane);
      const int64_t c = block * blocks_.lanes + lane;
      if (writes && out[BatchNorm::kMean] != nullptr)
        at<float>(out[BatchNorm::kMean])[c] = static_cast<float>(mean);
      if (writes && out[BatchNorm::kVariance] != nullptr)
        at<float>(out[BatchNorm::kVariance])[c] = static_cast<float>(variance);
      const double scale = at<const float>(in[BatchNorm::kGamma])[c] / std::sqrt(variance + eps_);
      for_each_column(blocks_, lane, [&, mean = mean](size_t s) {
        affine.mean[s] = static_cast<float>(mean);
        affine.scale[s] = static_cast<float>(scale);
        affine.shift[s] = at<const float>(in[BatchNorm::kBeta])[c];
      });
    }
    return affine;
  }

  /// The moments of all ranks together, each with the same number of values.
  Affine of_ranks(int64_t block, bool writes) const {
    const auto* table = at<const float>(slots_.inputs[BatchNorm::kTable]);
    return settled(block, writes, [&](int64_t lane) {
      const int64_t c = block * blocks_.lanes + lane;
      Moments all{};
      for (int64_t rank = 0; rank < table_->ranks(); ++rank)
        all.merge(0, 1, table_->first(table, rank, c), table_->second(table, rank, c));
      return ChannelMoments{all.mean[0], all.squares[0] / all.count[0]};
    });
  }

  double eps_;
  bool relu_;
  float ceiling_;
  ChannelBlocks blocks_;
  std::optional<RankTable> table_;
  Slots slots_;
};

Choice select_norm(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_blocks(context, inputs, BatchNorm::kX);
  const ChannelBlocks blocks =
      *channel_blocks(choice.inputs[BatchNorm::kX], context.inputs[BatchNorm::kX].shape);
  if (static_cast<const BatchNorm&>(context.op).relu) choice.outputs[BatchNorm::kMask] = bits_layout(blocks);
  if (!context.has_input(BatchNorm::kTable)) choice.workspace_bytes = record_bytes<Moments>(blocks);
  return choice;
}

std::unique_ptr<Kernel> compile_norm(const OpContext& context, const Choice& choice, const Slots& slots) {
  const ChannelBlocks blocks =
      *channel_blocks(choice.inputs[BatchNorm::kX], context.inputs[BatchNorm::kX].shape);
  return with_storage(context.inputs[BatchNorm::kX].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    return std::make_unique<BatchNormKernel<decltype(element)>>(
        static_cast<const BatchNorm&>(context.op), blocks, table_of(context, BatchNorm::kTable), slots);
  });
}

/// No convolution of the CPU computes these sums.
std::optional<std::string> why_not_norm(const OpContext& context) {
  if (!context.has_input(BatchNorm::kSums)) return std::nullopt;
  return "batch normalisation on the CPU measures for itself";
}

}  // namespace

std::optional<RankTable> table_of(const OpContext& context, size_t input) {
  if (!context.has_input(input)) return std::nullopt;
  return RankTable(context.inputs[input].shape, nullptr);
}

Choice select_blocks(const OpContext& context, const OpenLayouts& inputs, size_t image) {
  Choice choice = select_row_major(context, inputs);
  const Shape& shape = context.inputs[image].shape;
  Layout layout = inputs[image].value_or(Layout{});
  if (!channel_blocks(layout, shape)) layout = Layout{};
  for (size_t i = 0; i < choice.inputs.size(); ++i) {
    if (context.inputs[i].shape == shape) choice.inputs[i] = layout;
  }
  for (size_t i = 0; i < choice.outputs.size(); ++i) {
    if (context.outputs[i].shape == shape) choice.outputs[i] = layout;
  }
  return choice;
}

void add_batch_norm(Handlers& handlers) {
  handlers[typeid(BatchNorm)] = {select_norm, compile_norm, why_not_norm};
}

}  // namespace trainer::cpu
