// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// A row's operands besides its elements. Absent weights are ones, and an absent bias is zeros: both stay in
/// the cache, and one loop serves all.
struct RowNorm {
  int64_t width;
  double eps;
  bool rms;
  const float *gamma, *beta;
};

/// A thread's row in f32: converted once, then read from the cache. It is the sum as it is stored, so that a
/// sum which is normalised again gives bitwise identical results.
template <class T>
TRAINER_MULTIVERSION void normalise_row(const RowNorm& norm, const T* x, const T* residual, float* row, T* y,
                                        T* sum, float* factor_of, float* mean_of) {
  const int64_t width = norm.width;
  float total = 0, squares = 0;
  // NOLINTNEXTLINE(bugprone-branch-clone): loops of OpenMP look alike to it
  if (residual == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) row[i] = float(x[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) row[i] = float(T(float(x[i]) + float(residual[i])));
  }
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < width; ++i) total += row[i];
  if (sum != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) put(row[i], sum[i]);
  }
  const float mean = norm.rms ? 0 : total / static_cast<float>(width);
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < width; ++i) squares += (row[i] - mean) * (row[i] - mean);
  const auto factor = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(width) + norm.eps));
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) put((row[i] - mean) * factor * norm.gamma[i] + norm.beta[i], y[i]);
  if (factor_of != nullptr) *factor_of = factor;
  if (mean_of != nullptr) *mean_of = mean;
}

/// Element `offset` of a tensor, or nullptr of an absent one.
template <class T>
T* part_of(void* const* slot, int64_t offset) {
  return slot == nullptr ? nullptr : at<T>(slot) + offset;
}

template <class T>
class LayerNormKernel final : public Kernel {
 public:
  LayerNormKernel(const OpContext& context, Slots slots)
      : op_(static_cast<const LayerNorm&>(context.op)),
        width_(context.inputs[LayerNorm::kX].shape.back()),
        rows_(numel(context.inputs[LayerNorm::kX].shape) / width_),
        ones_(static_cast<size_t>(width_), 1.0f),
        zeros_(static_cast<size_t>(width_), 0.0f),
        slots_(std::move(slots)) {}

  void run() override {
    const auto &in = slots_.inputs, &out = slots_.outputs;
    const RowNorm norm{
        width_, op_.eps, op_.rms,
        in[LayerNorm::kGamma] == nullptr ? ones_.data() : at<const float>(in[LayerNorm::kGamma]),
        in[LayerNorm::kBeta] == nullptr ? zeros_.data() : at<const float>(in[LayerNorm::kBeta])};
    void* const* sum = in[LayerNorm::kResidual] == nullptr ? nullptr : out[op_.sum_output()];
    void* const* mean = op_.rms ? nullptr : out[LayerNorm::kMean];
    parallel_rows(rows_, width_, [&](int64_t begin, int64_t end) {
      float* row = at<float>(slots_.workspace) + omp_get_thread_num() * width_;
      for (int64_t r = begin; r < end; ++r) {
        normalise_row(norm, at<const T>(in[LayerNorm::kX]) + r * width_,
                      part_of<const T>(in[LayerNorm::kResidual], r * width_), row,
                      at<T>(out[LayerNorm::kY]) + r * width_, part_of<T>(sum, r * width_),
                      part_of<float>(out[LayerNorm::kFactor], r), part_of<float>(mean, r));
      }
    });
  }

 private:
  const LayerNorm& op_;
  int64_t width_, rows_;
  std::vector<float> ones_, zeros_;
  Slots slots_;
};

Choice select_layer_norm(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  choice.workspace_bytes = omp_get_max_threads() * context.inputs[LayerNorm::kX].shape.back() *
                           static_cast<int64_t>(sizeof(float));
  return choice;
}

std::unique_ptr<Kernel> compile_layer_norm(const OpContext& context, const Choice&, const Slots& slots) {
  return with_storage(context.inputs[LayerNorm::kX].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    return std::make_unique<LayerNormKernel<decltype(element)>>(context, slots);
  });
}

}  // namespace

void add_layer_norm(Handlers& handlers) {
  handlers[typeid(LayerNorm)] = {select_layer_norm, compile_layer_norm, {}};
}

}  // namespace trainer::cpu
