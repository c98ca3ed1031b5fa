// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/engine/executable.h"

namespace trainer {

/// A profile of a few steps as a file that chrome://tracing and https://ui.perfetto.dev open. Kept in memory
/// until it is written.
class Trace {
 public:
  /// Follows `steps` steps, from the third on: the first ones warm up. Without a path nothing is written: the
  /// steps only run as on the rank that writes.
  Trace(std::filesystem::path path, int64_t steps) : path_(std::move(path)), steps_(steps) {}

  bool follows(int64_t step) const { return step >= kFirstStep && step < kFirstStep + steps_; }

  // Times in seconds of the steady clock.
  void add_step(int64_t step, double begin, double end);
  void add_data_wait(double begin, double end);
  /// The sums of the ranks get a row of their own, from their start until the wait for them ends.
  void add_node(const PlannedNode& planned, double begin, double end);

  /// Throws Error (exit 74) if the file cannot be written.
  void write() const;

 private:
  enum class Row { steps, data, operations, communication };
  struct Event {
    std::string name, category;
    Row row;
    double begin, end;
    std::string implementation = {};
    std::vector<Attribute> attributes = {};
  };

  static constexpr int64_t kFirstStep = 3;
  std::filesystem::path path_;
  int64_t steps_;
  std::vector<Event> events_;
  std::map<int64_t, double> travelling_;  ///< start of each bucket's sum
};

}  // namespace trainer
