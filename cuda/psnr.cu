// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/psnr.h"

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/reduce.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

/// Images in row-major order.
struct ComparedImages {
  int64_t count, channels, area;
  const float *x, *t, *weight, *scale;
};

/// A block has an image.
__global__ void __launch_bounds__(kThreads) compare_images(ComparedImages images, double* ratios) {
  wait_for_previous_kernels();
  const int64_t image = blockIdx.x, of_image = images.channels * images.area;
  const float weight = images.weight[image];
  double sum = 0;
  if (weight != 0) {
    for (int64_t i = threadIdx.x; i < of_image; i += kThreads) {
      const int64_t place = image * of_image + i;
      const double error = (static_cast<double>(images.x[place]) - static_cast<double>(images.t[place])) /
                           static_cast<double>(images.scale[i / images.area]);
      sum += error * error;
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0)
    ratios[image] = weight == 0 ? 0 : weight * Psnr::decibels(sum / static_cast<double>(of_image));
}

__global__ void __launch_bounds__(kThreads) add_ratios(const double* ratios, int64_t count, float* total) {
  wait_for_previous_kernels();
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += ratios[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = static_cast<float>(sum);
}

/// A block's part of the sum waits in the workspace.
Choice select(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "block per image");
  choice.workspace_bytes = context.inputs[Psnr::kX].shape[0] * static_cast<int64_t>(sizeof(double));
  choice.kernels = 2;
  return choice;
}

std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Choice&, const Slots& slots) {
  const Shape shape = context.inputs[Psnr::kX].shape;
  return kernel(context, [=, stream = gpu.stream.get(), in = slots.inputs, workspace = slots.workspace,
                          out = slots.outputs[Psnr::kSum]] {
    const ComparedImages images{.count = shape[0],
                                .channels = shape[1],
                                .area = shape[2] * shape[3],
                                .x = at<const float>(in[Psnr::kX]),
                                .t = at<const float>(in[Psnr::kTargets]),
                                .weight = at<const float>(in[Psnr::kWeights]),
                                .scale = at<const float>(in[Psnr::kScale])};
    auto* ratios = static_cast<double*>(*workspace);
    const cudaError_t status = launch(compare_images, dim3(static_cast<unsigned>(images.count)),
                                      dim3(kThreads), stream, images, ratios);
    if (status != cudaSuccess) return status;
    return launch(add_ratios, dim3(1), dim3(kThreads), stream, ratios, images.count, at<float>(out));
  });
}

}  // namespace

void add_psnr(Handlers& handlers) {
  handlers[typeid(Psnr)] = {select, compile, {}};
}

}  // namespace trainer::cuda
