// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/config/fields.h"
#include "core/optim/plateau.h"

namespace trainer {

/// The factor of the base learning rate for each update. Every schedule may begin with a linear warm-up from
/// 0: during `warmup` the factor of update t (from 0) is (t + 1) / warmup, reaching 1.
class Schedule : public Component {
 public:
  void declare(Fields& fields) override;
  /// Reports errors that bounds on single fields cannot express. Called once after the fields were read,
  /// before factor().
  virtual void check(Diagnostics&) const {}
  /// The rule, if a metric decides when the rate drops. Its factor multiplies factor().
  virtual std::optional<PlateauSettings> plateau() const { return std::nullopt; }

  double factor(int64_t update, int64_t total_updates, const BatchCounts& batches) const;

 protected:
  /// The factor of an update >= warmup_updates.
  virtual double after_warmup(int64_t update, int64_t warmup_updates, int64_t total_updates,
                              const BatchCounts& batches) const = 0;

 private:
  Duration warmup_{0, Duration::Unit::batches};
};

/// constant, multi_step, cosine, linear, polynomial, trapezoid, inverse_sqrt, exponential, cosine_restarts,
/// one_cycle, plateau.
const Registry<Schedule>& schedules();

/// One value for each update, as the device reads them.
std::vector<float> learning_rates(const Schedule& schedule, double base_lr, int64_t total_updates,
                                  const BatchCounts& batches);

}  // namespace trainer
