// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/soft_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "core/base/math.h"
#include "cpu/loss_rows.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// A row of logits at a temperature: exp((x - largest) * inverse) has this sum.
struct WarmRow {
  const float* x;
  float largest, inverse;
  double sum = 0;

  WarmRow(const float* row, int64_t classes, float inverse_temperature);
};

TRAINER_MULTIVERSION double warm_sum(const float* x, float largest, float inverse, int64_t classes) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) sum += static_cast<double>(math::exp((x[c] - largest) * inverse));
  return sum;
}

/// Of exp of the teacher's exponents times the other's exponents.
TRAINER_MULTIVERSION double warm_product(const WarmRow& teacher, const WarmRow& logits, int64_t classes) {
  const float *of_teacher = teacher.x, *of_logits = logits.x;
  const float high = teacher.largest, other = logits.largest, inverse = teacher.inverse;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) {
    sum += static_cast<double>(math::exp((of_teacher[c] - high) * inverse)) *
           static_cast<double>((of_logits[c] - other) * inverse);
  }
  return sum;
}

TRAINER_MULTIVERSION void warm_gradient(const WarmRow& teacher, const WarmRow& logits, float scale, float* dx,
                                        int64_t classes) {
  const float *of_teacher = teacher.x, *of_logits = logits.x;
  const float high = teacher.largest, other = logits.largest, inverse = teacher.inverse;
  const auto of_p = static_cast<float>(scale / logits.sum), of_q = static_cast<float>(scale / teacher.sum);
#pragma omp simd
  for (int64_t c = 0; c < classes; ++c) {
    dx[c] = of_p * math::exp((of_logits[c] - other) * inverse) -
            of_q * math::exp((of_teacher[c] - high) * inverse);
  }
}

WarmRow::WarmRow(const float* row, int64_t classes, float inverse_temperature)
    : x(row),
      largest(row_max(row, classes)),
      inverse(inverse_temperature),
      sum(warm_sum(row, largest, inverse, classes)) {}

float inverse_of(double temperature) {
  return static_cast<float>(1 / temperature);
}

/// Rows wait in the workspace for their sum, which is made in one order.
std::unique_ptr<Kernel> compile_soft_loss(const OpContext& context, const Choice&, const Slots& slots) {
  using Op = SoftCrossEntropy;
  const double t = static_cast<const Op&>(context.op).temperature;
  const LogitSizes sizes(context.inputs[Op::kLogits].shape);
  return kernel([=, in = slots.inputs, workspace = slots.workspace, loss = slots.outputs[Op::kLoss]] {
    const int64_t rows = sizes.samples * sizes.positions, classes = sizes.classes;
    const auto *x = at<const float>(in[Op::kLogits]), *teacher = at<const float>(in[Op::kTeacher]),
               *weight = at<const float>(in[Op::kWeights]);
    auto* losses = at<double>(workspace);
    parallel_rows(rows, classes, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float share = weight[row / sizes.positions];
        losses[row] = 0;
        if (share == 0) continue;
        const WarmRow of_x(x + row * classes, classes, inverse_of(t)),
            of_teacher(teacher + row * classes, classes, inverse_of(t));
        losses[row] = share * (std::log(of_x.sum) - warm_product(of_teacher, of_x, classes) / of_teacher.sum);
      }
    });
    double sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += losses[row];
    *at<float>(loss) = static_cast<float>(t * t * sum / static_cast<double>(sizes.positions));
  });
}

std::unique_ptr<Kernel> compile_soft_gradient(const OpContext& context, const Choice&, const Slots& slots) {
  using Op = SoftCrossEntropyBackward;
  const double t = static_cast<const Op&>(context.op).temperature;
  const LogitSizes sizes(context.inputs[Op::kLogits].shape);
  return kernel([=, in = slots.inputs, dx = slots.outputs[Op::kDlogits]] {
    const int64_t classes = sizes.classes;
    const auto *x = at<const float>(in[Op::kLogits]), *teacher = at<const float>(in[Op::kTeacher]),
               *weight = at<const float>(in[Op::kWeights]);
    const double scale = *at<const float>(in[Op::kDloss]) * t / static_cast<double>(sizes.positions);
    parallel_rows(sizes.samples * sizes.positions, classes, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        float* to = at<float>(dx) + row * classes;
        const float share = weight[row / sizes.positions];
        if (share == 0) {
          std::fill(to, to + classes, 0.0F);
          continue;
        }
        warm_gradient({teacher + row * classes, classes, inverse_of(t)},
                      {x + row * classes, classes, inverse_of(t)}, static_cast<float>(scale * share), to,
                      classes);
      }
    });
  });
}

/// With their classes last, logits of pixels are rows like those of samples.
Choice select_rows(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  const auto choose = [](const std::vector<TensorSpec>& specs, std::vector<Layout>& layouts) {
    for (size_t i = 0; i < specs.size(); ++i)
      if (specs[i].shape.size() == 4) layouts[i] = channels_last(specs[i].shape);
  };
  choose(context.inputs, choice.inputs);
  choose(context.outputs, choice.outputs);
  return choice;
}

Choice select_soft_loss(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_rows(context, inputs);
  const LogitSizes sizes(context.inputs[SoftCrossEntropy::kLogits].shape);
  choice.workspace_bytes = sizes.samples * sizes.positions * static_cast<int64_t>(sizeof(double));
  return choice;
}

}  // namespace

void add_soft_cross_entropy(Handlers& handlers) {
  handlers[typeid(SoftCrossEntropy)] = {select_soft_loss, compile_soft_loss, why_not_low};
  handlers[typeid(SoftCrossEntropyBackward)] = {select_rows, compile_soft_gradient, why_not_low};
}

}  // namespace trainer::cpu
