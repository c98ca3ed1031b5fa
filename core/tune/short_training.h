// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/engine/agreement.h"
#include "core/host/log.h"
#include "core/host/stop.h"
#include "core/session/device.h"
#include "core/session/machine.h"
#include "core/train/device_samples.h"
#include "core/train/step_runner.h"

namespace trainer {

/// Training steps from the recipe's first weights, in this process alone, of which nothing is written.
class ShortTraining {
 public:
  /// `rates`: of each update, in place of the recipe's; empty: the recipe's. Throws Error as a run does that
  /// starts.
  ShortTraining(const std::shared_ptr<const Recipe>& recipe, std::vector<float> rates,
                const OpenDevice& open_device, Log& log);

  /// The next step, in the order in which steps are judged. `done` gets each result, and ends the training
  /// if it returns true. Throws Error (exit 75) when asked to stop.
  void train(int64_t most, const StopSignals& signals, const std::function<bool(const StepResult&)>& done);

  const Job& job() const { return job_; }
  const Backend& backend() const { return backend_; }
  Executable& executable() { return *machine_.executable; }

 private:
  Tuning tuning_;
  Backend backend_;
  Job job_;
  Machine machine_;
  std::optional<DeviceSamples> samples_;
  SingleProcess alone_;
  Agreement agreement_{alone_};
  std::optional<StepRunner> runner_;
};

}  // namespace trainer
