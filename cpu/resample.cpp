// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/resample2d.h"
#include "cpu/columns.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// Taps with weights in f32, as a loop reads them.
struct Sums {
  std::vector<int64_t> begin, input;
  std::vector<float> weight;

  explicit Sums(Taps taps)
      : begin(std::move(taps.begin)),
        input(std::move(taps.input)),
        weight(taps.weight.begin(), taps.weight.end()) {}
  int64_t outputs() const { return static_cast<int64_t>(begin.size()) - 1; }
};

/// One run: x (inputs of `rows`, x_width, kLanes) -> y (rows, columns, kLanes).
template <int64_t kLanes, class T>
TRAINER_MULTIVERSION void resample_run(const Sums& rows, const Sums& columns, int64_t x_width, const T* x,
                                       T* y) {
  const int64_t *row = rows.begin.data(), *column = columns.begin.data();
  for (int64_t i = 0; i < rows.outputs(); ++i) {
    for (int64_t j = 0; j < columns.outputs(); ++j, y += kLanes) {
      float sum[kLanes] = {};
      for (int64_t r = row[i]; r < row[i + 1]; ++r) {
        const T* line = x + rows.input[static_cast<size_t>(r)] * x_width * kLanes;
        for (int64_t c = column[j]; c < column[j + 1]; ++c) {
          const float weight = rows.weight[static_cast<size_t>(r)] * columns.weight[static_cast<size_t>(c)];
          const T* place = line + columns.input[static_cast<size_t>(c)] * kLanes;
          for (int64_t l = 0; l < kLanes; ++l) sum[l] += weight * float(place[l]);
        }
      }
      for (int64_t l = 0; l < kLanes; ++l) put(sum[l], y[l]);
    }
  }
}

/// Either direction: the output in blocks as wide as the input's. Padding stays zero, as a sum of zeros.
Choice select_resample(const OpContext& context, const OpenLayouts& inputs) {
  const Shape& shape = context.inputs[0].shape;
  const Layout from = blocked_or_row_major(inputs[0], shape);
  const int64_t lanes = channel_blocks(from, shape)->lanes;
  return {.inputs = {from},
          .outputs = {channel_layout(lanes, context.outputs[0].shape)},
          .implementation = "loop",
          .algorithm = ""};
}

std::unique_ptr<Kernel> compile_sums(const OpContext& context, const Choice& choice, const Slots& slots,
                                     const Sums& rows, const Sums& columns) {
  const Shape &from = context.inputs[0].shape, &to = context.outputs[0].shape;
  const ChannelBlocks blocks = *channel_blocks(choice.inputs[0], from);
  const int64_t width = from[3], step = to[2] * to[3] * blocks.lanes;
  return with_storage(context.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    const auto run = blocks.lanes == 16  ? resample_run<16, T>
                     : blocks.lanes == 8 ? resample_run<8, T>
                                         : resample_run<1, T>;
    return kernel([=, x = slots.inputs[0], y = slots.outputs[0]] {
      parallel_rows(blocks.samples * blocks.blocks, std::max(step, blocks.run),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        run(rows, columns, width, at<const T>(x) + i * blocks.run, at<T>(y) + i * step);
                      }
                    });
    });
  });
}

std::unique_ptr<Kernel> compile_resample(const OpContext& context, const Choice& choice, const Slots& slots) {
  const Resampling how = static_cast<const Resample2d&>(context.op).how;
  const Shape &x = context.inputs[Resample2d::kX].shape, &y = context.outputs[Resample2d::kY].shape;
  return compile_sums(context, choice, slots, Sums(taps(how, x[2], y[2])), Sums(taps(how, x[3], y[3])));
}

std::unique_ptr<Kernel> compile_resample_backward(const OpContext& context, const Choice& choice,
                                                  const Slots& slots) {
  const Resampling how = static_cast<const Resample2dBackward&>(context.op).how;
  const Shape &y = context.inputs[Resample2dBackward::kDy].shape,
              &x = context.outputs[Resample2dBackward::kDx].shape;
  return compile_sums(context, choice, slots, Sums(taps(how, x[2], y[2]).transposed(x[2])),
                      Sums(taps(how, x[3], y[3]).transposed(x[3])));
}

}  // namespace

void add_resample(Handlers& handlers) {
  handlers[typeid(Resample2d)] = {select_resample, compile_resample, {}};
  handlers[typeid(Resample2dBackward)] = {select_resample, compile_resample_backward, {}};
}

}  // namespace trainer::cpu
