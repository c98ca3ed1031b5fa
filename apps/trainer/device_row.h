// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "apps/trainer/arguments.h"
#include "apps/trainer/prices.h"
#include "core/base/json.h"

namespace trainer {

/// A device that is only planned for, as no speed of it is predicted.
constexpr const char* kCpu = "cpu";

/// Directories of runs that have measured a device, by its name.
using MeasuredRuns = std::map<std::string, std::string>;

/// One device, and a whole run of a recipe on as many of it as the recipe has ranks.
struct DeviceRow {
  std::string name;
  int64_t devices = 1;
  int64_t wanted_micro_batch = 0;  ///< the recipe's
  int64_t micro_batch = 0;         ///< the same, or the largest smaller one that fits
  int64_t bytes = 0, available = 0;
  int64_t global_batch = 0;
  std::optional<double> samples_per_second;  ///< of all devices
  bool holds_samples = false;                ///< it makes its batches itself (data.cache=device)
  std::string machine;                 ///< on which several devices' sums were predicted; empty: left out
  std::string measured_in;             ///< the run that says so; empty: predicted
  int64_t steps = 0;                   ///< of the run; 0: not known
  std::optional<double> watts, price;  ///< of one device: its power limit; for an hour

  bool fits() const { return bytes <= available; }
  std::optional<double> step_seconds() const;
  /// Those that processors make; nothing if none are made while it trains.
  std::optional<double> loaded_per_second() const {
    return holds_samples ? std::nullopt : samples_per_second;
  }
  /// Of the run's training steps.
  std::optional<double> hours() const;
  /// Of all devices for these hours, at their power limits.
  std::optional<double> kilowatt_hours() const;
  /// The same by their price.
  std::optional<double> cost() const;
};

/// Plans the recipe for a device: `cpu`, or a name or file as device.model takes it. If it does not fit, for
/// the largest smaller micro-batch that does. Throws Error as a plan for that device alone would, and if a
/// measured run has no speed.
DeviceRow plan_device(const Arguments& arguments, const std::string& name, const Prices& prices,
                      const MeasuredRuns& measured);

Json to_json(const DeviceRow& row);

}  // namespace trainer
