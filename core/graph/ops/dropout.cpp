// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/dropout.h"

#include <fmt/format.h>

namespace trainer {

void DropoutSettings::describe(AttributeVisitor& visit) const {
  visit("p", p);
  visit("key", fmt::format("{:016x}", key));
}

void DropoutPart::describe(AttributeVisitor& visit) const {
  trainer::describe(visit, along);
  visit("rows_of_sample", rows_of_sample, {.hidden = true});
  visit("width", width, {.hidden = true});
  visit("rows", rows, {.hidden = true});
  visit("columns", columns, {.hidden = true});
}

void Dropout::describe(AttributeVisitor& visit) const {
  settings.describe(visit);
  if (part) part->describe(visit);
}

std::vector<TensorSpec> Dropout::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[kX].shape;
  expect(inputs[kSample].dtype == DType::i32 && inputs[kSample].shape.size() == 1, "needs sample indices");
  const bool fits = part && part->rows > 0 ? x[0] == part->rows : inputs[kSample].shape[0] == x[0];
  expect(fits, "needs one index per sample");
  expect(inputs[kStep] == TensorSpec{{1}, DType::i32}, "needs the step");
  return {inputs[kX]};
}

std::vector<TensorId> Dropout::gradient(const Backward& backward) const {
  return {
      backward.build.emit<Dropout>({backward.dy[kY], backward.x(kSample), backward.x(kStep)}, settings, part),
      kNone, kNone};
}

std::shared_ptr<const Operation> Dropout::on_part(const SharedPart& shared) const {
  const Shape& whole = shared.whole;
  expect(shared.sections.size() <= 1, "dropout of features in several sections cannot be shared by ranks");
  DropoutPart own{
      .along = shared.along, .rows_of_sample = numel(whole) / whole[0] / whole.back(), .width = whole.back()};
  if (shared.sections.empty()) {
    own.rows = shared.rows;
  } else {
    own.columns = (whole.back() + shared.along.ranks - 1) / shared.along.ranks;
  }
  return std::make_shared<Dropout>(settings, own);
}

}  // namespace trainer
