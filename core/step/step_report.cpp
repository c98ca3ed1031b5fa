// SPDX-License-Identifier: Apache-2.0
#include "core/step/step_report.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/graph/names.h"

namespace trainer {
namespace {

const StepOutput& row_of(const StepOutput::Field& field) {
  return *std::ranges::find(step_outputs(), field, &StepOutput::field);
}

void set(double& field, double value) {
  field = value;
}
void set(std::optional<double>& field, double value) {
  field = value;
}
void set(std::optional<int64_t>& field, double value) {
  field = static_cast<int64_t>(value);
}
void set(std::optional<SkipReason>& field, double value) {
  field = static_cast<SkipReason>(static_cast<int32_t>(value));
}

}  // namespace

std::optional<int64_t> StepReport::skipped() const {
  if (!overflows && !guard_skipped) return std::nullopt;
  return overflows.value_or(0) + guard_skipped.value_or(0);
}

std::span<const StepOutput> step_outputs() {
  static const std::array<StepOutput, 8> table = {{
      {&StepReport::loss, output_name::kLoss, DType::f32},
      {&StepReport::lr, output_name::kLearningRate, DType::f32},
      {&StepReport::grad_norm, output_name::kGradientNorm, DType::f32},
      {&StepReport::loss_scale, output_name::kLossScale, DType::f32},
      {&StepReport::overflows, output_name::kOverflows, DType::i32},
      {&StepReport::guard_reason, output_name::kGuardReason, DType::i32},
      {&StepReport::guard_skipped, output_name::kGuardSkipped, DType::i32},
      {&StepReport::guard_in_a_row, output_name::kGuardInARow, DType::i32},
  }};
  return table;
}

void put_out(Builder& build, const StepOutput::Field& field, TensorId tensor) {
  const StepOutput& row = row_of(field);
  if (build.program().spec(tensor) != TensorSpec{{1}, row.type})
    throw std::logic_error(std::string("the output ") + row.name + " is of another type or shape");
  build.entry().outputs.push_back({row.name, tensor});
}

bool puts_out(const Entry& entry, const StepOutput::Field& field) {
  return entry.output(row_of(field).name) != kNone;
}

StepReader::StepReader(const std::vector<std::string>& names) {
  for (const StepOutput& row : step_outputs()) {
    const auto found = std::ranges::find(names, row.name);
    if (found != names.end()) columns_.emplace_back(found - names.begin(), row.field);
  }
}

void StepReader::read(const std::vector<double>& values, StepReport& report) const {
  for (const auto& [column, field] : columns_)
    std::visit([&, value = values[column]](auto member) { set(report.*member, value); }, field);
}

}  // namespace trainer
