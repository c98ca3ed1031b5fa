// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/psnr.h"

#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

TRAINER_MULTIVERSION double squared_errors(const float* x, const float* t, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const double error = static_cast<double>(x[i]) - static_cast<double>(t[i]);
    sum += error * error;
  }
  return sum;
}

/// The ratios of single images wait in the workspace to be added up in order.
Choice select_psnr(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  choice.workspace_bytes = context.inputs[Psnr::kX].shape[0] * static_cast<int64_t>(sizeof(double));
  return choice;
}

std::unique_ptr<Kernel> compile_psnr(const OpContext& context, const Choice&, const Slots& slots) {
  const Shape& shape = context.inputs[Psnr::kX].shape;
  const int64_t images = shape[0], channels = shape[1], area = shape[2] * shape[3];
  return kernel([=, in = slots.inputs, workspace = slots.workspace, out = slots.outputs[Psnr::kSum]] {
    const auto *x = at<const float>(in[Psnr::kX]), *t = at<const float>(in[Psnr::kTargets]);
    const auto *weight = at<const float>(in[Psnr::kWeights]), *scale = at<const float>(in[Psnr::kScale]);
    auto* ratios = at<double>(workspace);
    parallel_rows(images, channels * area, [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        double sum = 0;
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t first = (n * channels + c) * area;
          sum += squared_errors(x + first, t + first, area) / (static_cast<double>(scale[c]) * scale[c]);
        }
        const double error = sum / static_cast<double>(channels * area);
        ratios[n] = weight[n] == 0 ? 0 : weight[n] * Psnr::decibels(error);
      }
    });
    double sum = 0;
    for (int64_t n = 0; n < images; ++n) sum += ratios[n];
    *at<float>(out) = static_cast<float>(sum);
  });
}

}  // namespace

void add_psnr(Handlers& handlers) {
  handlers[typeid(Psnr)] = {select_psnr, compile_psnr, {}};
}

}  // namespace trainer::cpu
