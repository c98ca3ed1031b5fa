// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/math.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/dropout.h"
#include "core/graph/ops/unary.h"
#include "cpu/dropout.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

template <class F, class T>
TRAINER_MULTIVERSION void forward_range(F f, const T* x, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) put(f(float(x[i])), y[i]);
}

template <class F, class T>
TRAINER_MULTIVERSION void backward_range(F f, const T* dy, const T* saved, T* dx, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) put(f.gradient(float(saved[i]), float(dy[i])), dx[i]);
}

template <class T>
TRAINER_MULTIVERSION void add_range(const T* a, const T* b, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) put(float(a[i]) + float(b[i]), y[i]);
}

template <class T>
TRAINER_MULTIVERSION void add_relu_range(float ceiling, const T* a, const T* b, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) put(math::clamp(float(a[i]) + float(b[i]), 0.0f, ceiling), y[i]);
}

template <class T>
TRAINER_MULTIVERSION void mul_range(const T* a, const T* b, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) put(float(a[i]) * float(b[i]), y[i]);
}

/// Elements of one sample from `first` on, four to a block.
template <class T>
TRAINER_MULTIVERSION void dropout_range(DropoutSettings settings, int32_t sample, int32_t step, int64_t first,
                                        const T* x, T* y, int64_t count) {
  alignas(64) float factors[kDrawnElements];
  const int64_t skipped = first % 4;
  for (int64_t begin = -skipped; begin < count; begin += kDrawnElements) {
    draw_factors(settings, (first + begin) / 4, sample, step, factors);
    const int64_t from = std::max<int64_t>(begin, 0), piece = std::min(kDrawnElements, count - begin);
#pragma omp simd
    for (int64_t i = from; i < begin + piece; ++i) put(float(x[i]) * factors[i - begin], y[i]);
  }
}

int64_t elements(const OpContext& context, const Choice& choice) {
  return stored_elements(choice.inputs[0], context.inputs[0].shape);
}

std::unique_ptr<Kernel> compile_unary(const OpContext& context, const Choice& choice, const Slots& slots) {
  const auto& op = static_cast<const Unary&>(context.op);
  const int64_t count = elements(context, choice);
  auto make = [&](auto element, auto f) {
    using T = decltype(element);
    return kernel([=, x = slots.inputs[Unary::kX], y = slots.outputs[Unary::kY]] {
      parallel_elements(count, [=](int64_t begin, int64_t end) {
        forward_range(f, at<const T>(x) + begin, at<T>(y) + begin, end - begin);
      });
    });
  };
  return with_storage(context.inputs[Unary::kX].dtype, [&](auto element) {
    return std::visit([&](auto f) { return make(element, f); }, op.function);
  });
}

std::unique_ptr<Kernel> compile_unary_backward(const OpContext& context, const Choice& choice,
                                               const Slots& slots) {
  const auto& op = static_cast<const UnaryBackward&>(context.op);
  const int64_t count = elements(context, choice);
  auto make = [&](auto element, auto f) {
    using T = decltype(element);
    return kernel([=, dy = slots.inputs[UnaryBackward::kDy], saved = slots.inputs[UnaryBackward::kSaved],
                   dx = slots.outputs[UnaryBackward::kDx]] {
      parallel_elements(count, [=](int64_t begin, int64_t end) {
        backward_range(f, at<const T>(dy) + begin, at<const T>(saved) + begin, at<T>(dx) + begin,
                       end - begin);
      });
    });
  };
  return with_storage(context.inputs[UnaryBackward::kDy].dtype, [&](auto element) {
    return std::visit([&](auto f) { return make(element, f); }, op.function);
  });
}

std::unique_ptr<Kernel> compile_binary(const OpContext& context, const Choice& choice, const Slots& slots) {
  const int64_t count = elements(context, choice);
  const auto& op = static_cast<const Binary&>(context.op);
  return with_storage(context.inputs[Binary::kA].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, adds = op.kind == Binary::Kind::add, relu = op.relu,
                   ceiling = static_cast<float>(op.ceiling), a = slots.inputs[Binary::kA],
                   b = slots.inputs[Binary::kB], y = slots.outputs[Binary::kY]] {
      parallel_elements(count, [=](int64_t begin, int64_t end) {
        const T *of_a = at<const T>(a) + begin, *of_b = at<const T>(b) + begin;
        if (relu) return add_relu_range(ceiling, of_a, of_b, at<T>(y) + begin, end - begin);
        (adds ? add_range<T> : mul_range<T>)(of_a, of_b, at<T>(y) + begin, end - begin);
      });
    });
  });
}

/// Rows of x that are drawn for at once, and their places in whole samples.
struct DropoutRows {
  int64_t count, width;
  int64_t of_sample;  ///< rows of a whole sample
  int64_t whole_width, first_row = 0, first_column = 0;

  DropoutRows(const Dropout& op, const Shape& x, int64_t position)
      : count(x[0]), width(numel(x) / x[0]), of_sample(1), whole_width(width) {
    if (!op.part) return;
    width = x.back();
    count = numel(x) / width;
    of_sample = op.part->rows_of_sample;
    whole_width = op.part->width;
    first_row = op.part->rows * position;
    first_column = op.part->columns * position;
  }
  int64_t sample(int64_t row) const { return (first_row + row) / of_sample; }
  int64_t element(int64_t row) const { return (first_row + row) % of_sample * whole_width + first_column; }
};

/// Rows beyond the samples are padding.
std::unique_ptr<Kernel> compile_dropout(const ProcessGroup* group, const OpContext& context,
                                        const Slots& slots) {
  const auto& op = static_cast<const Dropout&>(context.op);
  const DropoutRows rows(op, context.inputs[Dropout::kX].shape,
                         op.part ? position_along(group, op.part->along) : 0);
  const int64_t samples = context.inputs[Dropout::kSample].shape[0];
  return with_storage(context.inputs[Dropout::kX].dtype, [&](auto element) {
    using T = decltype(element);
    return kernel([=, settings = op.settings, x = slots.inputs[Dropout::kX],
                   sample = slots.inputs[Dropout::kSample], step = slots.inputs[Dropout::kStep],
                   y = slots.outputs[Dropout::kY]] {
      parallel_rows(rows.count, rows.width, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          T* const to = at<T>(y) + row * rows.width;
          if (rows.sample(row) < samples) {
            dropout_range(settings, at<const int32_t>(sample)[rows.sample(row)], *at<const int32_t>(step),
                          rows.element(row), at<const T>(x) + row * rows.width, to, rows.width);
          } else {
            std::fill_n(to, rows.width, T{});
          }
        }
      });
    });
  });
}

bool unary_keeps_zero(const OpContext& context) {
  const auto& op = static_cast<const Unary&>(context.op);
  return std::visit([](const auto& f) { return f(0.0f) == 0.0f; }, op.function);
}

}  // namespace

void add_elementwise(Handlers& handlers) {
  auto same = [](const OpContext& context, const OpenLayouts& inputs) {
    return select_same(context, inputs, true);
  };
  auto unary = [](const OpContext& context, const OpenLayouts& inputs) {
    return select_same(context, inputs, unary_keeps_zero(context));
  };
  handlers[typeid(Unary)] = {unary, compile_unary, {}};
  handlers[typeid(UnaryBackward)] = {same, compile_unary_backward, {}};
  handlers[typeid(Binary)] = {same, compile_binary, {}};
  handlers[typeid(Dropout)] = {select_row_major, for_rank(handlers.group(), compile_dropout), {}};
}

}  // namespace trainer::cpu
