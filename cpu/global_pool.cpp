// SPDX-License-Identifier: Apache-2.0
#include "cpu/global_pool.h"

#include <oneapi/dnnl/dnnl.hpp>

#include "core/graph/ops/pool2d.h"
#include "cpu/columns.h"
#include "cpu/parallel.h"

namespace trainer::cpu {
namespace {

/// The sum of each column of a run.
template <class T>
TRAINER_MULTIVERSION void sum_columns(const T* x, int64_t count, float* sums) {
  Row sum{}, value;
  const int64_t whole = count / kColumns * kColumns;
  for (int64_t i = 0; i < whole; i += kColumns) {
    load(x + i, value);
    sum += value;
  }
  store(sum, sums);
  for (int64_t i = whole; i < count; ++i) sums[i - whole] += float(x[i]);
}

template <class T>
TRAINER_MULTIVERSION void fill_columns(const float* values, T* x, int64_t count) {
  Row row;
  load(values, row);
  const int64_t whole = count / kColumns * kColumns;
  for (int64_t i = 0; i < whole; i += kColumns) store(row, x + i);
  for (int64_t i = whole; i < count; ++i) x[i] = T(values[i - whole]);
}

/// Blocks as wide as the processor's vectors, the preference of its convolutions.
Layout vector_blocks(const Shape& shape) {
  const bool wide = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  const int64_t lanes = wide ? 16 : 8, area = shape[2] * shape[3];
  const int64_t padded = (shape[1] + lanes - 1) / lanes * lanes;
  if (padded != shape[1]) return Layout{};
  return {.dims = shape,
          .padded = shape,
          .strides = {padded * area, area * lanes, shape[3] * lanes, lanes},
          .block_sizes = {lanes},
          .block_dims = {1}};
}

}  // namespace

bool is_global_pool(const OpContext& context) {
  const auto* forward = dynamic_cast<const AvgPool2d*>(&context.op);
  const auto* backward = dynamic_cast<const AvgPool2dBackward*>(&context.op);
  const Conv2dGeometry& g = forward != nullptr ? forward->geometry : backward->geometry;
  const Shape& x = forward != nullptr ? context.inputs[AvgPool2d::kX].shape : backward->x_shape;
  return g.kernel == Size2d{x[2], x[3]} && g.padding == Size2d{0, 0};
}

Choice select_global_pool(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  const Layout x = inputs[AvgPool2d::kX].value_or(Layout{});
  if (channel_blocks(x, context.inputs[AvgPool2d::kX].shape)) choice.inputs[AvgPool2d::kX] = x;
  return choice;
}

std::unique_ptr<Kernel> compile_global_pool(const OpContext& context, const Choice& choice,
                                            const Slots& slots) {
  const ChannelBlocks blocks =
      *channel_blocks(choice.inputs[AvgPool2d::kX], context.inputs[AvgPool2d::kX].shape);
  return with_storage(context.inputs[AvgPool2d::kX].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, x = slots.inputs[AvgPool2d::kX], y = slots.outputs[AvgPool2d::kY]] {
      const float share = static_cast<float>(blocks.lanes) / static_cast<float>(blocks.run);
      parallel_rows(blocks.samples * blocks.blocks, blocks.run, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          float sums[kColumns];
          sum_columns(at<const T>(x) + i * blocks.run, blocks.run, sums);
          const int64_t block = i % blocks.blocks;
          T* to = at<T>(y) + i / blocks.blocks * blocks.channels + block * blocks.lanes;
          for (int64_t lane = 0; lane < blocks.lanes_used(block); ++lane) {
            float sum = 0;
            for (int64_t s = lane; s < kColumns; s += blocks.lanes) sum += sums[s];
            to[lane] = T(share * sum);
          }
        }
      });
    });
  });
}

Choice select_global_pool_backward(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  choice.outputs[AvgPool2dBackward::kDx] = vector_blocks(context.outputs[AvgPool2dBackward::kDx].shape);
  return choice;
}

std::unique_ptr<Kernel> compile_global_pool_backward(const OpContext& context, const Choice& choice,
                                                     const Slots& slots) {
  const ChannelBlocks blocks =
      *channel_blocks(choice.outputs[AvgPool2dBackward::kDx], context.outputs[AvgPool2dBackward::kDx].shape);
  return with_storage(context.inputs[AvgPool2dBackward::kDy].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, dy = slots.inputs[AvgPool2dBackward::kDy], dx = slots.outputs[AvgPool2dBackward::kDx]] {
      const float share = static_cast<float>(blocks.lanes) / static_cast<float>(blocks.run);
      parallel_rows(blocks.samples * blocks.blocks, blocks.run, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T* from =
              at<const T>(dy) + i / blocks.blocks * blocks.channels + i % blocks.blocks * blocks.lanes;
          float values[kColumns];
          for (int64_t s = 0; s < kColumns; ++s) values[s] = share * float(from[s % blocks.lanes]);
          fill_columns(values, at<T>(dx) + i * blocks.run, blocks.run);
        }
      });
    });
  });
}

}  // namespace trainer::cpu
