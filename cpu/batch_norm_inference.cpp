// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/lerp.h"
#include "cpu/columns.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

template <class T>
TRAINER_MULTIVERSION void affine_run(const float* scale_of, const float* shift_of, const T* x, T* y,
                                     int64_t count) {
  Row scale, shift, value;
  load(scale_of, scale), load(shift_of, shift);
  const int64_t whole = count / kColumns * kColumns;
  for (int64_t i = 0; i < whole; i += kColumns) {
    load(x + i, value);
    value = value * scale + shift;
    store(value, y + i);
  }
  for (int64_t i = whole; i < count; ++i) y[i] = T(float(x[i]) * scale_of[i - whole] + shift_of[i - whole]);
}

Choice select_inference(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  const Layout layout = inputs[BatchNormInference::kX].value_or(Layout{});
  if (!channel_blocks(layout, context.inputs[BatchNormInference::kX].shape)) return choice;
  choice.inputs[BatchNormInference::kX] = choice.outputs[BatchNormInference::kY] = layout;
  return choice;
}

std::unique_ptr<Kernel> compile_inference(const OpContext& context, const Choice& choice,
                                          const Slots& slots) {
  const double eps = static_cast<const BatchNormInference&>(context.op).eps;
  const ChannelBlocks blocks =
      *channel_blocks(choice.inputs[BatchNormInference::kX], context.inputs[BatchNormInference::kX].shape);
  return with_storage(context.inputs[BatchNormInference::kX].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, in = slots.inputs, y = slots.outputs[BatchNormInference::kY]] {
      parallel_rows(blocks.samples * blocks.blocks, blocks.run, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          float scale[kColumns] = {}, shift[kColumns] = {};
          const int64_t block = i % blocks.blocks;
          for (int64_t s = 0; s < kColumns; ++s) {
            const int64_t lane = s % blocks.lanes, c = block * blocks.lanes + lane;
            if (lane >= blocks.lanes_used(block)) continue;
            const double factor = at<const float>(in[BatchNormInference::kGamma])[c] /
                                  std::sqrt(at<const float>(in[BatchNormInference::kVariance])[c] + eps);
            scale[s] = static_cast<float>(factor);
            shift[s] = static_cast<float>(at<const float>(in[BatchNormInference::kBeta])[c] -
                                          at<const float>(in[BatchNormInference::kMean])[c] * factor);
          }
          affine_run(scale, shift, at<const T>(in[BatchNormInference::kX]) + i * blocks.run,
                     at<T>(y) + i * blocks.run, blocks.run);
        }
      });
    });
  });
}

/// Of each element in an inner block of a weight's layout: its step along the output channels.
std::vector<int64_t> inner_channels(const Layout& layout, const std::vector<int64_t>& channel_steps) {
  int64_t size = 1;
  for (int64_t block : layout.block_sizes) size *= block;
  std::vector<int64_t> channels(static_cast<size_t>(size), 0);
  for (int64_t i = 0; i < size; ++i) {
    int64_t rest = i;
    std::vector<int64_t> place(channel_steps.size(), 0), scale(channel_steps.size(), 1);
    for (size_t b = layout.block_sizes.size(); b-- > 0;) {
      const auto d = static_cast<size_t>(layout.block_dims[b]);
      place[d] += rest % layout.block_sizes[b] * scale[d];
      scale[d] *= layout.block_sizes[b];
      rest /= layout.block_sizes[b];
    }
    for (size_t d = 0; d < place.size(); ++d) channels[static_cast<size_t>(i)] += place[d] * channel_steps[d];
  }
  return channels;
}

/// One block of the weights: its offset, and the first output channel in it.
struct WeightBlock {
  int64_t offset, channel;
};

std::vector<WeightBlock> weight_blocks(const Layout& layout, const std::vector<int64_t>& channel_steps) {
  Shape inner(layout.dims.size(), 1);
  for (size_t b = 0; b < layout.block_sizes.size(); ++b)
    inner[static_cast<size_t>(layout.block_dims[b])] *= layout.block_sizes[b];
  std::vector<WeightBlock> blocks{{0, 0}};
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    std::vector<WeightBlock> longer;
    for (const WeightBlock& block : blocks) {
      for (int64_t i = 0; i < layout.padded[d] / inner[d]; ++i) {
        longer.push_back(
            {block.offset + i * layout.strides[d], block.channel + i * inner[d] * channel_steps[d]});
      }
    }
    blocks = std::move(longer);
  }
  return blocks;
}

/// Output channels per step along each dimension.
std::vector<int64_t> channel_steps(const Layout& layout, const Shape& shape) {
  std::vector<int64_t> steps(layout.dims.size(), 0);
  const bool grouped = layout.dims.size() > shape.size();
  steps[0] = grouped ? layout.dims[1] : 1;
  if (grouped) steps[1] = 1;
  return steps;
}

/// Weights as equal blocks, and the output channel of each element in one relative to its first.
struct BlockedWeights {
  std::vector<WeightBlock> blocks;
  std::vector<int64_t> channels;
};

/// Row-major ones are a block for each output channel.
BlockedWeights blocked(const Layout& layout, const Shape& shape) {
  if (!layout.row_major()) {
    const std::vector<int64_t> steps = channel_steps(layout, shape);
    return {weight_blocks(layout, steps), inner_channels(layout, steps)};
  }
  const int64_t row = numel(shape) / shape[0];
  BlockedWeights rows{{}, std::vector<int64_t>(static_cast<size_t>(row), 0)};
  for (int64_t c = 0; c < shape[0]; ++c) rows.blocks.push_back({c * row, c});
  return rows;
}

std::unique_ptr<Kernel> compile_fold(const OpContext& context, const Choice& choice, const Slots& slots) {
  const FoldBatchNorm op(static_cast<const FoldBatchNorm&>(context.op).eps);
  const int64_t channels = context.inputs[FoldBatchNorm::kGamma].shape[0];
  const BlockedWeights weights =
      blocked(choice.inputs[FoldBatchNorm::kWeight], context.inputs[FoldBatchNorm::kWeight].shape);
  return kernel([=, blocks = weights.blocks, inner = weights.channels,
                 scales = std::vector<float>(static_cast<size_t>(channels)), in = slots.inputs,
                 out = slots.outputs]() mutable {
    for (int64_t c = 0; c < channels; ++c) {
      const double scale = op.factor(at<const float>(in[FoldBatchNorm::kGamma])[c],
                                     at<const float>(in[FoldBatchNorm::kVariance])[c]);
      const double bias =
          in[FoldBatchNorm::kBias] == nullptr ? 0 : at<const float>(in[FoldBatchNorm::kBias])[c];
      scales[static_cast<size_t>(c)] = static_cast<float>(scale);
      if (out[FoldBatchNorm::kFoldedBias] == nullptr) continue;
      at<float>(out[FoldBatchNorm::kFoldedBias])[c] =
          FoldBatchNorm::folded_bias(bias, at<const float>(in[FoldBatchNorm::kMean])[c], scale,
                                     at<const float>(in[FoldBatchNorm::kBeta])[c]);
    }
    if (out[FoldBatchNorm::kFoldedWeight] == nullptr) return;
    parallel_rows(static_cast<int64_t>(blocks.size()), static_cast<int64_t>(inner.size()),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t b = begin; b < end; ++b) {
                      const WeightBlock& block = blocks[static_cast<size_t>(b)];
                      const float* w = at<const float>(in[FoldBatchNorm::kWeight]) + block.offset;
                      float* folded = at<float>(out[FoldBatchNorm::kFoldedWeight]) + block.offset;
                      for (size_t i = 0; i < inner.size(); ++i) {
                        const int64_t c =
                            std::min(block.channel + inner[i], channels - 1);  // padding is zero
                        folded[i] = w[i] * scales[static_cast<size_t>(c)];
                      }
                    }
                  });
  });
}

TRAINER_MULTIVERSION void lerp_range(float share, float scale, const float* old, const float* fresh, float* y,
                                     int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = old[i] + share * (scale * fresh[i] - old[i]);
}

std::unique_ptr<Kernel> compile_lerp(const OpContext& context, const Choice& choice, const Slots& slots) {
  const auto& op = static_cast<const Lerp&>(context.op);
  const int64_t count = stored_elements(choice.inputs[Lerp::kOld], context.inputs[Lerp::kOld].shape);
  return kernel([=, share = static_cast<float>(op.share), scale = static_cast<float>(op.scale),
                 old = slots.inputs[Lerp::kOld], fresh = slots.inputs[Lerp::kFresh],
                 y = slots.outputs[Lerp::kY], skip = slots.inputs[Lerp::kSkip]] {
    const bool skips = skip != nullptr && *at<const float>(skip) != 0;
    if (skips && *old == *y) return;
    parallel_elements(count, [&](int64_t begin, int64_t end) {
      const float* from = at<const float>(old);
      if (skips) {
        std::copy(from + begin, from + end, at<float>(y) + begin);
      } else {
        lerp_range(share, scale, from + begin, at<const float>(fresh) + begin, at<float>(y) + begin,
                   end - begin);
      }
    });
  });
}

}  // namespace

void add_batch_norm_inference(Handlers& handlers) {
  handlers[typeid(BatchNormInference)] = {select_inference, compile_inference, {}};
  handlers[typeid(FoldBatchNorm)] = {[](const OpContext& context, const OpenLayouts& inputs) {
                                       Choice choice = select_row_major(context, inputs);
                                       choice.inputs[FoldBatchNorm::kWeight] =
                                           choice.outputs[FoldBatchNorm::kFoldedWeight] =
                                               inputs[FoldBatchNorm::kWeight].value_or(Layout{});
                                       return choice;
                                     },
                                     compile_fold,
                                     {}};
  handlers[typeid(Lerp)] = {
      [](const OpContext& context, const OpenLayouts& inputs) {
        return select_same(context, {inputs[Lerp::kOld] ? inputs[Lerp::kOld] : inputs[Lerp::kFresh]}, true);
      },
      compile_lerp,
      {}};
}

}  // namespace trainer::cpu
