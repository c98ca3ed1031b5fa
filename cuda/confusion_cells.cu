// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/confusion_cells.h"

#include <climits>

#include "core/graph/ops/cross_entropy.h"
#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/logit_row.h"
#include "cuda/loss.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

constexpr int64_t kRowsOfCells = kThreads / kWarp;

/// The larger one; NaN is smaller than all.
struct LargerNumber {
  __device__ float operator()(float a, float b) const { return b > a || a != a ? b : a; }
};
struct Lower {
  __device__ int32_t operator()(int32_t a, int32_t b) const { return b < a ? b : a; }
};

/// A warp for each row of logits.
template <class T>
__global__ void __launch_bounds__(kThreads)
    find_cells(LogitRows rows, const T* logits, int32_t ignored, int32_t* cells) {
  wait_for_previous_kernels();
  const int64_t index = blockIdx.x * kRowsOfCells + threadIdx.x / kWarp;
  if (index >= rows.samples * rows.positions) return;
  const T* row = logits + index * rows.classes;
  float own = NAN;
  int32_t own_class = INT_MAX;
  for (int64_t c = WarpTeam::member(); c < rows.classes; c += kWarp) {
    const float x = to_float(row[c]);
    if (own_class != INT_MAX && !(x > own || (own != own && x == x))) continue;
    own = x;
    own_class = static_cast<int32_t>(c);
  }
  const float largest = warp_reduce(own, LargerNumber{});
  const bool is_largest = own == largest || largest != largest;
  const int32_t best = warp_reduce(is_largest ? own_class : INT_MAX, Lower{});
  if (WarpTeam::member() != 0) return;
  const int32_t label = rows.label[index];
  const bool counts = label != ignored && rows.weight[index / rows.positions] != 0;
  cells[index] = counts ? label * static_cast<int32_t>(rows.classes) + best : -1;
}

/// A thread for each class of a sample.
template <class T>
__global__ void __launch_bounds__(kThreads)
    find_label_set_cells(int64_t count, int64_t classes, const T* logits, const T* targets,
                         const float* weights, int32_t* cells) {
  wait_for_previous_kernels();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  cells[i] =
      weights[i / classes] == 0 ? -1 : label_set_cell(i % classes, to_float(targets[i]), to_float(logits[i]));
}

/// With their classes last, logits of positions are rows like those of samples.
Choice select_cells(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return all_channels_last(context, "rows");
}

std::unique_ptr<Kernel> compile_cells(const Gpu& gpu, const OpContext& context, const Choice&,
                                      const Slots& slots) {
  const LogitSizes sizes(context.inputs[ConfusionCells::kLogits].shape);
  const dim3 blocks(
      static_cast<unsigned>((sizes.samples * sizes.positions + kRowsOfCells - 1) / kRowsOfCells));
  return kernel(context, [=, ignored = static_cast<const ConfusionCells&>(context.op).ignored,
                          dtype = context.inputs[ConfusionCells::kLogits].dtype, stream = gpu.stream.get()] {
    const LogitRows rows{sizes.samples,
                         sizes.positions,
                         sizes.classes,
                         at<const int32_t>(slots.inputs[ConfusionCells::kLabels]),
                         at<const float>(slots.inputs[ConfusionCells::kWeights]),
                         nullptr,
                         nullptr,
                         sizes.classes};
    return with_storage(dtype, [=](auto type) {
      using T = decltype(type);
      return launch(find_cells<T>, blocks, dim3(kThreads), stream, rows,
                    at<const T>(slots.inputs[ConfusionCells::kLogits]), ignored,
                    at<int32_t>(slots.outputs[ConfusionCells::kCells]));
    });
  });
}

std::unique_ptr<Kernel> compile_label_set_cells(const Gpu& gpu, const OpContext& context, const Choice&,
                                                const Slots& slots) {
  const int64_t count = numel(context.inputs[LabelSetCells::kLogits].shape),
                classes = context.inputs[LabelSetCells::kLogits].shape[1];
  return kernel(context, [=, dtype = context.inputs[LabelSetCells::kLogits].dtype,
                          stream = gpu.stream.get()] {
    return with_storage(dtype, [=](auto type) {
      using T = decltype(type);
      return launch(find_label_set_cells<T>, dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)),
                    dim3(kThreads), stream, count, classes, at<const T>(slots.inputs[LabelSetCells::kLogits]),
                    at<const T>(slots.inputs[LabelSetCells::kTargets]),
                    at<const float>(slots.inputs[LabelSetCells::kWeights]),
                    at<int32_t>(slots.outputs[LabelSetCells::kCells]));
    });
  });
}

}  // namespace

void add_confusion_cells(Handlers& handlers) {
  handlers[typeid(ConfusionCells)] = {select_cells, compile_cells, floats_only};
  handlers[typeid(LabelSetCells)] = {select_cells, compile_label_set_cells, floats_only};
}

}  // namespace trainer::cuda
