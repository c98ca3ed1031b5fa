// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include "core/graph/ops/layer_norm.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// The rows are divided into parts; each sums its gradients of the parameters. Parts do not depend on the
/// number of threads, so neither do the bits of these sums.
struct RowParts {
  static constexpr int64_t kMost = 64, kLeastRows = 16;

  int64_t rows, width, rows_of_part, count;

  explicit RowParts(const Shape& shape) : rows(numel(shape) / shape.back()), width(shape.back()) {
    const int64_t wanted = std::clamp<int64_t>(rows / kLeastRows, 1, kMost);
    rows_of_part = (rows + wanted - 1) / wanted;
    count = (rows + rows_of_part - 1) / rows_of_part;
  }
  /// dgamma and dbeta of each part.
  int64_t bytes() const { return 2 * count * width * static_cast<int64_t>(sizeof(float)); }
};

/// A row's operands and results. other may be nullptr; dx may share memory with any of the first three.
template <class T>
struct RowGradient {
  const T *dy, *s, *other;
  float factor, mean;
  T* dx;
};

/// With h = (s - mean) * factor and g = gamma * dy: dx = factor * (g - mean of g - h * mean of g h) + other;
/// with rms the mean of g is omitted. dgamma += dy h, dbeta += dy.
template <class T>
TRAINER_MULTIVERSION void gradient_of_row(const RowGradient<T>& row, const float* gamma, bool rms,
                                          int64_t width, float* dgamma, float* dbeta) {
  const T *dy = row.dy, *s = row.s;
  const float factor = row.factor, mean = row.mean;
  float slopes = 0, products = 0;
#pragma omp simd reduction(+ : slopes, products)
  for (int64_t i = 0; i < width; ++i) {
    const float slope = float(dy[i]), normal = (float(s[i]) - mean) * factor, scaled = gamma[i] * slope;
    slopes += scaled;
    products += scaled * normal;
    dgamma[i] += slope * normal;
    dbeta[i] += slope;
  }
  const float shift = rms ? 0 : slopes / static_cast<float>(width),
              pull = products / static_cast<float>(width);
  T* dx = row.dx;
  const T* other = row.other;
  // NOLINTNEXTLINE(bugprone-branch-clone): loops of OpenMP look alike to it
  if (other == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const float normal = (float(s[i]) - mean) * factor;
      put(factor * (gamma[i] * float(dy[i]) - shift - normal * pull), dx[i]);
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const float normal = (float(s[i]) - mean) * factor;
      put(factor * (gamma[i] * float(dy[i]) - shift - normal * pull) + float(other[i]), dx[i]);
    }
  }
}

/// Columns [begin, end) of the parts, `step` elements apart, added up in double and in order.
TRAINER_MULTIVERSION void add_up_parts(const float* parts, int64_t count, int64_t step, int64_t begin,
                                       int64_t end, float* total) {
  constexpr int64_t kAtOnce = 64;
  for (int64_t first = begin; first < end; first += kAtOnce) {
    const int64_t columns = std::min(kAtOnce, end - first);
    std::array<double, kAtOnce> sums{};
    for (int64_t part = 0; part < count; ++part) {
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) sums[static_cast<size_t>(i)] += parts[part * step + first + i];
    }
    for (int64_t i = 0; i < columns; ++i) total[first + i] = static_cast<float>(sums[static_cast<size_t>(i)]);
  }
}

template <class T>
class LayerNormBackwardKernel final : public Kernel {
 public:
  LayerNormBackwardKernel(const OpContext& context, Slots slots)
      : rms_(static_cast<const LayerNormBackward&>(context.op).rms),
        parts_(context.inputs[LayerNormBackward::kSum].shape),
        ones_(static_cast<size_t>(parts_.width), 1.0f),
        slots_(std::move(slots)) {}

  void run() override {
    const int64_t worth = std::max<int64_t>(1, kElementsWorthAThread / (parts_.rows_of_part * parts_.width));
    parallel_ranges(parts_.count, 1, worth, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) run_part(part);
    });
    for (size_t output : {size_t{1}, size_t{2}}) {
      if (slots_.outputs[output] == nullptr) continue;
      const float* sums = at<const float>(slots_.workspace) + (output == 1 ? 0 : parts_.width);
      parallel_elements(parts_.width, [&](int64_t begin, int64_t end) {
        add_up_parts(sums, parts_.count, 2 * parts_.width, begin, end, at<float>(slots_.outputs[output]));
      });
    }
  }

 private:
  void run_part(int64_t part) const {
    const auto& in = slots_.inputs;
    const int64_t width = parts_.width;
    float* dgamma = at<float>(slots_.workspace) + part * 2 * width;
    std::fill(dgamma, dgamma + 2 * width, 0.0f);
    const float* gamma = in[LayerNormBackward::kGamma] == nullptr
                             ? ones_.data()
                             : at<const float>(in[LayerNormBackward::kGamma]);
    const int64_t end = std::min(parts_.rows, (part + 1) * parts_.rows_of_part);
    for (int64_t r = part * parts_.rows_of_part; r < end; ++r) {
      void* const* other = in[LayerNormBackward::kOtherDy];
      const RowGradient<T> row{.dy = at<const T>(in[LayerNormBackward::kDy]) + r * width,
                               .s = at<const T>(in[LayerNormBackward::kSum]) + r * width,
                               .other = other == nullptr ? nullptr : at<const T>(other) + r * width,
                               .factor = at<const float>(in[LayerNormBackward::kFactor])[r],
                               .mean = rms_ ? 0 : at<const float>(in[LayerNormBackward::kMean])[r],
                               .dx = at<T>(slots_.outputs[LayerNormBackward::kDx]) + r * width};
      gradient_of_row(row, gamma, rms_, width, dgamma, dgamma + width);
    }
  }

  bool rms_;
  RowParts parts_;
  std::vector<float> ones_;
  Slots slots_;
};

Choice select_layer_norm_backward(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  choice.workspace_bytes = RowParts(context.inputs[LayerNormBackward::kSum].shape).bytes();
  return choice;
}

std::unique_ptr<Kernel> compile_layer_norm_backward(const OpContext& context, const Choice&,
                                                    const Slots& slots) {
  return with_storage(context.inputs[LayerNormBackward::kSum].dtype,
                      [&](auto element) -> std::unique_ptr<Kernel> {
                        return std::make_unique<LayerNormBackwardKernel<decltype(element)>>(context, slots);
                      });
}

}  // namespace

void add_layer_norm_backward(Handlers& handlers) {
  handlers[typeid(LayerNormBackward)] = {select_layer_norm_backward, compile_layer_norm_backward, {}};
}

}  // namespace trainer::cpu
