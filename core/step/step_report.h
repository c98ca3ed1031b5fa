// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/graph/builder.h"
#include "core/graph/ops/step_guard.h"

namespace trainer {

/// The outputs of one training step. Those that its program does not have are absent.
struct StepReport {
  int64_t step = 0;
  double loss = 0;  ///< mean over the global batch
  double lr = 0;
  std::optional<double> grad_norm;   ///< joint 2-norm of all gradients, before clipping
  std::optional<double> loss_scale;  ///< of the next step
  std::optional<int64_t> overflows;  ///< steps so far that loss scaling skipped
  std::optional<SkipReason>
      guard_reason;  ///< of a guard that looks at gradients: why it skipped the step, or none
  std::optional<int64_t> guard_skipped;   ///< steps so far that the guard skipped
  std::optional<int64_t> guard_in_a_row;  ///< of these the last ones without a good step in between

  /// The reason why a guard skipped the step.
  SkipReason reason() const { return guard_reason.value_or(SkipReason::none); }
  /// Steps so far that changed nothing; absent if steps are never skipped.
  std::optional<int64_t> skipped() const;
};

/// A field of StepReport and the output of one element that fills it.
struct StepOutput {
  using Field = std::variant<double StepReport::*, std::optional<double> StepReport::*,
                             std::optional<int64_t> StepReport::*, std::optional<SkipReason> StepReport::*>;
  Field field;
  const char* name;
  DType type;
};

/// All fields but the step, a row each.
std::span<const StepOutput> step_outputs();

/// Makes a tensor the output of the builder's entry that fills a field. Throws std::logic_error if its
/// type or shape is not that of the field.
void put_out(Builder& build, const StepOutput::Field& field, TensorId tensor);
bool puts_out(const Entry& entry, const StepOutput::Field& field);

/// Fills reports from the values of outputs with these names.
class StepReader {
 public:
  explicit StepReader(const std::vector<std::string>& names);
  /// Fields without an output stay as they are.
  void read(const std::vector<double>& values, StepReport& report) const;

 private:
  std::vector<std::pair<size_t, StepOutput::Field>> columns_;  ///< position of a value, and its destination
};

}  // namespace trainer
