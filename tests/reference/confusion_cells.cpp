// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/confusion_cells.h"

#include <cmath>

#include "core/graph/ops/cross_entropy.h"
#include "tests/reference/table.h"

namespace trainer::reference {
namespace {

void confusion_cells(const Call& call) {
  const LogitSizes sizes(call.shape_in(ConfusionCells::kLogits));
  const bool is_image = call.shape_in(ConfusionCells::kLogits).size() == 4;
  for (int64_t n = 0; n < sizes.samples; ++n) {
    for (int64_t p = 0; p < sizes.positions; ++p) {
      const int64_t first = n * sizes.classes * sizes.positions + (is_image ? p : p * sizes.classes);
      int64_t best = 0;
      double largest = -HUGE_VAL;
      for (int64_t c = sizes.classes - 1; c >= 0; --c) {
        const double x = call.in(ConfusionCells::kLogits)[first + c * (is_image ? sizes.positions : 1)];
        if (!(x >= largest)) continue;
        largest = x;
        best = c;
      }
      const int64_t row = n * sizes.positions + p;
      const int32_t label = call.in<int32_t>(ConfusionCells::kLabels)[row];
      const bool counts =
          label != call.as<ConfusionCells>().ignored && call.in(ConfusionCells::kWeights)[n] != 0;
      call.out<int32_t>(ConfusionCells::kCells)[row] =
          counts ? static_cast<int32_t>(label * sizes.classes + best) : -1;
    }
  }
}

void label_set_cells(const Call& call) {
  const int64_t classes = call.shape_in(LabelSetCells::kLogits)[1];
  for (int64_t i = 0; i < call.count_in(LabelSetCells::kLogits); ++i) {
    const int64_t label = call.in(LabelSetCells::kTargets)[i] >= 0.5 ? 1 : 0,
                  predicted = call.in(LabelSetCells::kLogits)[i] > 0 ? 1 : 0;
    const bool counts = call.in(LabelSetCells::kWeights)[i / classes] != 0;
    call.out<int32_t>(LabelSetCells::kCells)[i] =
        counts ? static_cast<int32_t>(4 * (i % classes) + 2 * label + predicted) : -1;
  }
}

}  // namespace

void add_confusion_cells(Loops& loops) {
  loops[typeid(ConfusionCells)] = confusion_cells;
  loops[typeid(LabelSetCells)] = label_set_cells;
}

}  // namespace trainer::reference
