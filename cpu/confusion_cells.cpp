// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/confusion_cells.h"

#include <cmath>

#include "core/graph/ops/cross_entropy.h"
#include "cpu/loss_rows.h"
#include "cpu/parallel.h"
#include "cpu/pixel_loss.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// The first class of the largest among `classes` logits, `stride` apart. Every number is larger than NaN.
int32_t first_largest(const float* x, int64_t classes, int64_t stride) {
  int64_t best = 0;
  float largest = x[0];
  for (int64_t c = 1; c < classes; ++c) {
    const float value = x[c * stride];
    if (!(value > largest || (std::isnan(largest) && !std::isnan(value)))) continue;
    largest = value;
    best = c;
  }
  return static_cast<int32_t>(best);
}

std::unique_ptr<Kernel> compile_confusion_cells(const OpContext& context, const Choice&, const Slots& slots) {
  const LogitSizes sizes(context.inputs[ConfusionCells::kLogits].shape);
  const bool of_pixels = is_per_pixel(context.inputs[ConfusionCells::kLogits]);
  return kernel([=, ignored = static_cast<const ConfusionCells&>(context.op).ignored,
                 x = slots.inputs[ConfusionCells::kLogits], labels = slots.inputs[ConfusionCells::kLabels],
                 weights = slots.inputs[ConfusionCells::kWeights],
                 cells = slots.outputs[ConfusionCells::kCells]] {
    const int64_t positions = sizes.positions, classes = sizes.classes;
    parallel_rows(sizes.samples * positions, classes, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t sample = row / positions;
        const int32_t label = at<const int32_t>(labels)[row];
        const bool counts = label != ignored && at<const float>(weights)[sample] != 0;
        const int64_t first = of_pixels ? sample * classes * positions + row % positions : row * classes;
        const float* logits = at<const float>(x) + first;
        at<int32_t>(cells)[row] = counts ? label * static_cast<int32_t>(classes) +
                                               first_largest(logits, classes, of_pixels ? positions : 1)
                                         : -1;
      }
    });
  });
}

std::unique_ptr<Kernel> compile_label_set_cells(const OpContext& context, const Choice&, const Slots& slots) {
  const int64_t samples = context.inputs[LabelSetCells::kLogits].shape[0],
                classes = context.inputs[LabelSetCells::kLogits].shape[1];
  return kernel([=, x = slots.inputs[LabelSetCells::kLogits], targets = slots.inputs[LabelSetCells::kTargets],
                 weights = slots.inputs[LabelSetCells::kWeights],
                 cells = slots.outputs[LabelSetCells::kCells]] {
    parallel_rows(samples, classes, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin * classes; i < end * classes; ++i) {
        at<int32_t>(cells)[i] =
            at<const float>(weights)[i / classes] == 0
                ? -1
                : label_set_cell(i % classes, at<const float>(targets)[i], at<const float>(x)[i]);
      }
    });
  });
}

}  // namespace

void add_confusion_cells(Handlers& handlers) {
  handlers[typeid(ConfusionCells)] = {select_row_major, compile_confusion_cells, why_not_low};
  handlers[typeid(LabelSetCells)] = {select_row_major, compile_label_set_cells, why_not_low};
}

}  // namespace trainer::cpu
