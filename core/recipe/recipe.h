// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/section.h"
#include "core/layers/loss.h"
#include "core/layers/network.h"
#include "core/optim/optimizer.h"
#include "core/optim/schedule.h"
#include "core/recipe/compression_section.h"
#include "core/recipe/sections.h"
#include "core/recipe/sweep_section.h"
#include "core/run/run_identity.h"

namespace trainer {

/// A whole recipe, read and checked: every key has its value, and all checks that need neither data nor
/// device are done.
class Recipe {
 public:
  /// Defaults < file < overrides (`section.key=value`). Throws one Error (exit 78) with every problem.
  static std::shared_ptr<const Recipe> load(const std::string& path,
                                            const std::vector<std::string>& overrides);
  /// The same for a text in place of this file; other files are named relative to it.
  static std::shared_ptr<const Recipe> parse(const std::string& text, const std::string& path,
                                             const std::vector<std::string>& overrides);

  /// All keys with their defaults, bounds and help, for listings.
  Recipe();
  const Fields& fields() const { return fields_; }

  int64_t version = 1;
  RunSection run;
  DeviceSection device;
  MemorySection memory;
  RuntimeSection runtime;
  ParallelismSection parallelism;
  Network model;
  DataSection data;
  TrainingSection training;
  std::unique_ptr<Loss> loss;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Schedule> lr_scheduler;
  GuardSection guards;
  ValidationSection validation;
  LoggingSection logging;
  CheckpointSection checkpoint;
  CompressionSection compression;
  SweepSection sweep;

  /// Every key with its value, as YAML that makes the same recipe again; `sources` adds where each came from.
  std::string to_yaml(bool sources) const;
  /// What optimizer.lr_for_batch makes of optimizer.lr, as a sentence; "" if it is not set.
  std::string rate_text() const;
  /// Of one of the keys that affect results, "model.input", in one canonical form.
  Value value_of(const std::string& path) const;
  /// Whether an environment variable gives this path of data, so that a resume compares the data there.
  bool is_left_to_samples(const std::string& path) const;
  /// Whether data.val_fraction takes its share of each class.
  bool stratifies() const;
  /// The keys that affect results.
  RunIdentity identity() const;
  /// The directory, and the identity, of this recipe's run if it was begun when data.val_fraction took no
  /// account of classes; nothing if it does not now, or if the recipe says so itself.
  struct EarlierRun {
    std::string directory;
    RunIdentity identity;
  };
  std::optional<EarlierRun> earlier_run() const;
  /// All keys with their values in the same form.
  Value settings() const;
  /// run.output_dir with its braces filled in.
  std::string output_directory() const;

  /// The file that it was loaded from.
  const std::string& file() const { return file_; }
  /// The files that its keys were read from: its own, and those of a network and of templates.
  std::vector<std::string> files() const;

  /// The place of a section or of one of its keys ("data", "data.train"), or of the file.
  Origin origin_of(const std::string& path) const;
  /// Whether validation.metrics names it.
  bool measures(const std::string& metric) const;

 private:
  static std::shared_ptr<const Recipe> read(Value root, const std::string& path,
                                            const std::vector<std::string>& overrides);
  void declare();
  void check(Diagnostics& diagnostics) const;
  void check_batches(Diagnostics& diagnostics) const;
  void check_followed_metrics(Diagnostics& diagnostics) const;
  void check_metric(const std::string& key, const std::string& metric, Diagnostics& diagnostics) const;
  void check_data(Diagnostics& diagnostics) const;
  void check_bytes(Diagnostics& diagnostics) const;
  void check_tracker(Diagnostics& diagnostics) const;
  void check_split(Diagnostics& diagnostics) const;
  void check_compression(Diagnostics& diagnostics) const;
  std::string output_directory_checked(const RunIdentity& identity, Diagnostics& diagnostics) const;
  RunIdentity identity_with(bool stratifies) const;

  std::string file_;
  Fields fields_;
  Value given_;  ///< settings of file and overrides
};

}  // namespace trainer
