// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/engine/executable.h"
#include "core/engine/predicted_time.h"
#include "core/engine/process_group.h"

namespace trainer {

/// A profile of a few steps as a file that chrome://tracing and https://ui.perfetto.dev open, with a process
/// for each rank, of 16 at most. Kept in memory until it is written.
class Trace {
 public:
  enum class Row { steps, data, operations, communication };

  /// Follows `steps` steps, from the third on: the first ones warm up. Only rank 0 has a path.
  Trace(std::filesystem::path path, int64_t steps) : path_(std::move(path)), steps_(steps) {}

  bool follows(int64_t step) const { return step >= kFirstStep && step < kFirstStep + steps_; }

  // Times in seconds of the steady clock.
  void add_step(int64_t step, double begin, double end);
  void add_data_wait(double begin, double end);
  /// The sums of the ranks get a row of their own, from their start until the wait for them ends.
  void add_node(const Plan& plan, const PlannedNode& planned, double begin, double end);

  /// Every rank calls it between two steps. Throws Error (exit 74) if the file cannot be written.
  void write(ProcessGroup& group) const;

 private:
  struct Event {
    std::string name, category;
    Row row;
    double begin, end;
    std::string implementation = {};
    NodeWork work = {};
    std::vector<Attribute> attributes = {};
  };

  Json events_of(int64_t rank, double origin) const;

  static constexpr int64_t kFirstStep = 3;
  std::filesystem::path path_;
  int64_t steps_;
  std::vector<Event> events_;
  std::map<int64_t, double> travelling_;  ///< start of each bucket's sum
};

}  // namespace trainer
