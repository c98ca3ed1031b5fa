// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/channels.h"

#include <array>

#include "cpu/columns.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

template <bool kScales, class T>
TRAINER_MULTIVERSION void apply_range(const float* columns, const T* x, T* y, int64_t count) {
  Row number, value;
  load(columns, number);
  const int64_t whole = count / kColumns * kColumns;
  for (int64_t i = 0; i < whole; i += kColumns) {
    load(x + i, value);
    value = kScales ? value * number : value + number;
    store(value, y + i);
  }
  for (int64_t i = whole; i < count; ++i) {
    const float of_column = columns[i - whole];
    y[i] = T(kScales ? float(x[i]) * of_column : float(x[i]) + of_column);
  }
}

/// Adds to each column the sum of its elements of a, or of a * b if there is a b.
template <class T>
TRAINER_MULTIVERSION void sum_range(const T* a, const T* b, int64_t count, double* sums) {
  for (int64_t from = 0; from < count; from += kColumns * kRowsPerSum) {
    const int64_t end = std::min(count, from + kColumns * kRowsPerSum), whole = end - (end - from) % kColumns;
    Row sum{}, value, other;
    for (int64_t i = from; i < whole; i += kColumns) {
      load(a + i, value);
      if (b != nullptr) {
        load(b + i, other);
        value *= other;
      }
      sum += value;
    }
    for (int64_t s = 0; s < kColumns; ++s) sums[s] += sum[s];
    for (int64_t i = whole; i < end; ++i)
      sums[i - whole] += float(a[i]) * (b != nullptr ? float(b[i]) : 1.0f);
  }
}

/// One number per column for a block of channels; padding gets zeros.
template <class T>
std::array<float, kColumns> columns_of(const ChannelBlocks& blocks, int64_t block, const T* of_channels) {
  std::array<float, kColumns> columns{};
  const int64_t used = blocks.lanes_used(block);
  for (int64_t s = 0; s < kColumns; ++s) {
    const int64_t lane = s % blocks.lanes;
    if (lane < used) columns[static_cast<size_t>(s)] = float(of_channels[block * blocks.lanes + lane]);
  }
  return columns;
}

/// Calls body(sample, block, offset of the run) for every run, in parallel.
template <class Body>
void for_each_run(const ChannelBlocks& blocks, const Body& body) {
  parallel_rows(blocks.samples * blocks.blocks, blocks.run, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / blocks.blocks, i % blocks.blocks, i * blocks.run);
  });
}

ChannelBlocks blocks_of(const OpContext& context, const Choice& choice) {
  return *channel_blocks(choice.inputs[0], context.inputs[0].shape);
}

/// From one sample's factors to the next: a vector (N, C, 1, 1) is a dense row in every layout with blocks.
int64_t row_stride(const Layout& layout, const Shape& shape) {
  const ChannelBlocks blocks = *channel_blocks(layout, shape);
  return blocks.blocks * blocks.lanes;
}

Choice select_scale(const OpContext& context, const OpenLayouts& inputs) {
  const Layout x = blocked_or_row_major(inputs[ScaleChannels::kX], context.inputs[ScaleChannels::kX].shape);
  return {.inputs = {x, blocked_or_row_major(inputs[ScaleChannels::kFactors],
                                             context.inputs[ScaleChannels::kFactors].shape)},
          .outputs = {x},
          .implementation = "loop",
          .algorithm = ""};
}

std::unique_ptr<Kernel> compile_scale(const OpContext& context, const Choice& choice, const Slots& slots) {
  const ChannelBlocks blocks = blocks_of(context, choice);
  const int64_t stride =
      row_stride(choice.inputs[ScaleChannels::kFactors], context.inputs[ScaleChannels::kFactors].shape);
  return with_storage(context.inputs[ScaleChannels::kX].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, x = slots.inputs[ScaleChannels::kX], s = slots.inputs[ScaleChannels::kFactors],
                   y = slots.outputs[ScaleChannels::kY]] {
      for_each_run(blocks, [=](int64_t sample, int64_t block, int64_t offset) {
        const auto columns = columns_of(blocks, block, at<const T>(s) + sample * stride);
        apply_range<true, T>(columns.data(), at<const T>(x) + offset, at<T>(y) + offset, blocks.run);
      });
    });
  });
}

/// The factors' gradient in blocks as wide as those of the images.
Choice select_scale_backward(const OpContext& context, const OpenLayouts& inputs) {
  const Shape& shape = context.inputs[ScaleChannelsBackward::kDy].shape;
  const Layout x = blocked_or_row_major(inputs[ScaleChannelsBackward::kDy], shape);
  const int64_t lanes = channel_blocks(x, shape)->lanes;
  return {.inputs = {x, x},
          .outputs = {channel_layout(lanes, context.outputs[ScaleChannelsBackward::kDfactors].shape)},
          .implementation = "loop",
          .algorithm = ""};
}

/// The sums of a run's columns that belong to one channel.
double lane_sum(const std::array<double, kColumns>& sums, int64_t lanes, int64_t lane) {
  double sum = 0;
  for (int64_t s = lane; s < kColumns; s += lanes) sum += sums[static_cast<size_t>(s)];
  return sum;
}

std::unique_ptr<Kernel> compile_scale_backward(const OpContext& context, const Choice& choice,
                                               const Slots& slots) {
  const ChannelBlocks blocks = blocks_of(context, choice);
  return with_storage(context.inputs[ScaleChannelsBackward::kDy].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, dy = slots.inputs[ScaleChannelsBackward::kDy],
                   x = slots.inputs[ScaleChannelsBackward::kX],
                   ds = slots.outputs[ScaleChannelsBackward::kDfactors]] {
      for_each_run(blocks, [=](int64_t sample, int64_t block, int64_t offset) {
        std::array<double, kColumns> sums{};
        sum_range(at<const T>(dy) + offset, at<const T>(x) + offset, blocks.run, sums.data());
        T* row = at<T>(ds) + (sample * blocks.blocks + block) * blocks.lanes;
        for (int64_t lane = 0; lane < blocks.lanes; ++lane) {
          row[lane] = T(static_cast<float>(lane_sum(sums, blocks.lanes, lane)));
        }
      });
    });
  });
}

Choice select_add(const OpContext& context, const OpenLayouts& inputs) {
  const Layout x = blocked_or_row_major(inputs[AddChannels::kX], context.inputs[AddChannels::kX].shape);
  return {.inputs = {x, Layout{}}, .outputs = {x}, .implementation = "loop", .algorithm = ""};
}

std::unique_ptr<Kernel> compile_add(const OpContext& context, const Choice& choice, const Slots& slots) {
  const ChannelBlocks blocks = blocks_of(context, choice);
  return with_storage(context.inputs[AddChannels::kX].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, x = slots.inputs[AddChannels::kX], b = slots.inputs[AddChannels::kBias],
                   y = slots.outputs[AddChannels::kY]] {
      for_each_run(blocks, [=](int64_t, int64_t block, int64_t offset) {
        const auto columns = columns_of(blocks, block, at<const float>(b));
        apply_range<false, T>(columns.data(), at<const T>(x) + offset, at<T>(y) + offset, blocks.run);
      });
    });
  });
}

Choice select_add_backward(const OpContext& context, const OpenLayouts& inputs) {
  return {.inputs = {blocked_or_row_major(inputs[AddChannelsBackward::kDy],
                                          context.inputs[AddChannelsBackward::kDy].shape)},
          .outputs = {Layout{}},
          .implementation = "loop",
          .algorithm = ""};
}

/// Threads take blocks of channels, so that the sum over samples has one order.
std::unique_ptr<Kernel> compile_add_backward(const OpContext& context, const Choice& choice,
                                             const Slots& slots) {
  const ChannelBlocks blocks = blocks_of(context, choice);
  return with_storage(context.inputs[AddChannelsBackward::kDy].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel(
        [=, dy = slots.inputs[AddChannelsBackward::kDy], db = slots.outputs[AddChannelsBackward::kDbias]] {
          parallel_rows(blocks.blocks, blocks.samples * blocks.run, [=](int64_t begin, int64_t end) {
            for (int64_t block = begin; block < end; ++block) {
              std::array<double, kColumns> sums{};
              for (int64_t n = 0; n < blocks.samples; ++n) {
                const T* run = at<const T>(dy) + (n * blocks.blocks + block) * blocks.run;
                sum_range<T>(run, nullptr, blocks.run, sums.data());
              }
              float* of_block = at<float>(db) + block * blocks.lanes;
              for (int64_t lane = 0; lane < blocks.lanes_used(block); ++lane) {
                of_block[lane] = static_cast<float>(lane_sum(sums, blocks.lanes, lane));
              }
            }
          });
        });
  });
}

}  // namespace

void add_channels(Handlers& handlers) {
  handlers[typeid(ScaleChannels)] = {select_scale, compile_scale, {}};
  handlers[typeid(ScaleChannelsBackward)] = {select_scale_backward, compile_scale_backward, {}};
  handlers[typeid(AddChannels)] = {select_add, compile_add, {}};
  handlers[typeid(AddChannelsBackward)] = {select_add_backward, compile_add_backward, {}};
}

}  // namespace trainer::cpu
