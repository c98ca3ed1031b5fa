// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/cuda_standin/dnn_steps.h"
#include "tests/cuda_standin/products.h"

namespace trainer::standin {
namespace {

/// Of a tensor, the range of its view; bytes between its elements do not matter.
using Values = std::vector<float>;

cudaDataType_t stored(cudnnDataType_t type) {
  return type == CUDNN_DATA_HALF ? CUDA_R_16F : type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF : CUDA_R_32F;
}

template <class Visit>
void for_each_place(const Sizes& sizes, Visit visit) {
  for (int64_t n = 0; n < sizes[0]; ++n) {
    for (int64_t h = 0; h < sizes[1]; ++h) {
      for (int64_t i = 0; i < sizes[2]; ++i) {
        for (int64_t j = 0; j < sizes[3]; ++j) visit(Sizes{n, h, i, j});
      }
    }
  }
}

class Run {
 public:
  Run(const std::map<int64_t, void*>& tensors, const std::map<int64_t, float>& numbers)
      : tensors_(tensors), numbers_(numbers) {}

  void run(const StepOfGraph& step) {
    for (const View& view : step.from) values_of(view);
    Values made;
    switch (step.type) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        made = product(step);
        break;
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        made = reduction(step);
        break;
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        made = values_of(step.from[0]);
        break;
      default:
        made = pointwise(step);
    }
    keep(step.to, std::move(made));
  }

 private:
  /// A virtual tensor's from the step that made it, else those in memory.
  const Values& values_of(const View& view) {
    if (view.by_value) return known_[view.uid] = {numbers_.at(view.uid)};
    if (view.is_virtual) return known_.at(view.uid);
    return known_[view.uid] = load(stored(view.type), tensors_.at(view.uid), view.span());
  }

  void keep(const View& view, Values made) {
    if (view.type == CUDNN_DATA_HALF || view.type == CUDNN_DATA_BFLOAT16) {
      std::vector<uint16_t> rounded(made.size());
      store(stored(view.type), made, rounded.data());
      made = load(stored(view.type), rounded.data(), static_cast<int64_t>(made.size()));
    }
    if (!view.is_virtual) write(view, made);
    known_[view.uid] = std::move(made);
  }

  /// The tensor's elements, and nothing between them.
  void write(const View& view, const Values& made) const {
    const auto bytes = static_cast<int64_t>(element_bytes(stored(view.type)));
    for_each_place(view.sizes, [&](const Sizes& at) {
      const int64_t place = view.offset(at);
      store(stored(view.type), {made[static_cast<size_t>(place)]},
            static_cast<char*>(tensors_.at(view.uid)) + place * bytes);
    });
  }

  /// A dimension of 1 serves all, and a head of keys those of its group.
  float at(const View& view, Sizes place, const Sizes& whole) const {
    for (size_t i = 0; i < 4; ++i) place[i] /= whole[i] / view.sizes[i];
    return known_.at(view.uid)[static_cast<size_t>(view.offset(place))];
  }

  Values product(const StepOfGraph& step) const {
    const View &a = step.from[0], &b = step.from[1];
    const int64_t inner = a.sizes[3], group = a.sizes[1] / b.sizes[1];
    const Values &left = known_.at(a.uid), &right = known_.at(b.uid);
    // Blocks of a kernel add to the existing values in memory in f32.
    const bool adds = !step.to.is_virtual && step.to.type == CUDNN_DATA_FLOAT;
    Values made = adds ? load(CUDA_R_32F, tensors_.at(step.to.uid), step.to.span())
                       : Values(static_cast<size_t>(step.to.span()));
    for_each_place(step.to.sizes, [&](const Sizes& to) {
      const auto [n, h, i, j] = to;
      double sum = made[static_cast<size_t>(step.to.offset(to))];
      for (int64_t k = 0; k < inner; ++k) {
        sum += double{left[static_cast<size_t>(a.offset({n, h, i, k}))]} *
               right[static_cast<size_t>(b.offset({n, h / group, k, j}))];
      }
      made[static_cast<size_t>(step.to.offset(to))] = static_cast<float>(sum);
    });
    return made;
  }

  Values reduction(const StepOfGraph& step) const {
    const View& from = step.from[0];
    const bool largest = step.reduction == CUDNN_REDUCE_TENSOR_MAX;
    Values made(static_cast<size_t>(step.to.span()),
                largest ? -std::numeric_limits<float>::infinity() : 0.0f);
    for_each_place(from.sizes, [&](const Sizes& place) {
      Sizes to = place;
      for (size_t i = 0; i < 4; ++i) to[i] /= from.sizes[i] / step.to.sizes[i];
      float& sum = made[static_cast<size_t>(step.to.offset(to))];
      const float value = at(from, place, from.sizes);
      sum = largest ? std::max(sum, value) : sum + value;
    });
    return made;
  }

  Values pointwise(const StepOfGraph& step) const {
    Values made(static_cast<size_t>(step.to.span()));
    for_each_place(step.to.sizes, [&](const Sizes& place) {
      std::array<float, 3> x{};
      for (size_t i = 0; i < step.from.size(); ++i) x[i] = at(step.from[i], place, step.to.sizes);
      made[static_cast<size_t>(step.to.offset(place))] = apply(step, x, place);
    });
    return made;
  }

  static float apply(const StepOfGraph& step, const std::array<float, 3>& x, const Sizes& place) {
    switch (step.mode) {
      case CUDNN_POINTWISE_ADD:
        return x[0] + x[1];
      case CUDNN_POINTWISE_SUB:
        return x[0] - x[1];
      case CUDNN_POINTWISE_MUL:
        return x[0] * x[1];
      case CUDNN_POINTWISE_DIV:
        return x[0] / x[1];
      case CUDNN_POINTWISE_EXP:
        return std::exp(x[0]);
      case CUDNN_POINTWISE_LOG:
        return std::log(x[0]);
      case CUDNN_POINTWISE_CMP_GE:
        return x[0] >= x[1] ? 1 : 0;
      case CUDNN_POINTWISE_BINARY_SELECT:
        return x[2] != 0 ? x[0] : x[1];
      case CUDNN_POINTWISE_GEN_INDEX:
        return static_cast<float>(place[static_cast<size_t>(step.axis)]);
      default:
        return x[0];
    }
  }

  const std::map<int64_t, void*>& tensors_;
  const std::map<int64_t, float>& numbers_;
  std::map<int64_t, Values> known_;
};

}  // namespace

void run_steps(const StepsOfGraph& steps, const std::map<int64_t, void*>& tensors,
               const std::map<int64_t, float>& numbers) {
  Run run(tensors, numbers);
  for (const StepOfGraph& step : steps) run.run(step);
}

}  // namespace trainer::standin
