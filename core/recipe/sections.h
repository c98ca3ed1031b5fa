// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/precision.h"
#include "core/base/units.h"
#include "core/config/fields.h"
#include "core/metrics/metrics_sinks.h"
#include "core/passes/pass.h"
#include "core/step/guard.h"
#include "core/step/pipeline_schedule.h"
#include "core/train/early_stop.h"
#include "core/train/guard.h"

namespace trainer {

// Sections of a recipe that do not belong to a single folder; `data` and `model` are in theirs.

struct RunSection {
  std::string name;  ///< default: the recipe's file name without extension
  std::string output_dir = "runs/{run.name}-{hash}";
  int64_t seed = 0;
  bool deterministic = false;
  FilePath resume = "auto";
  std::vector<std::string> allow_changes;
  std::optional<Duration> stop_after;
  std::optional<TimeSpan> max_wall_time;
  TimeSpan grace_period{25};
  int64_t max_restarts = 0;
  void declare(Fields& fields);

  /// Whether run.resume says so: the run begins at step 0.
  bool is_never() const;
  /// The path to begin from, if it is one.
  std::optional<FilePath> resume_path() const;
};

/// The value of checkpoint.keep_best for which no best weights are kept.
constexpr const char* kKeepNone = "none";

struct CheckpointSection {
  Cadence interval{TimeSpan{600}};
  int64_t keep_latest = 2;
  std::optional<std::string> keep_best;
  void declare(Fields& fields);
};

struct DeviceSection {
  std::string type = "auto";
  int64_t index = 0;
  FilePath model = "auto";  ///< or the name of a GPU
  int64_t threads = 0;
  std::optional<ByteSize> memory;
  std::string instructions = "auto";
  bool emulate_bf16 = false;
  void declare(Fields& fields);
};

struct MemorySection {
  std::string recompute = "none";
  void declare(Fields& fields);

  /// Nothing if the text is neither one of the words nor a size.
  std::optional<Recompute> parsed_recompute() const;
};

struct RuntimeSection {
  bool autotune = false;
  std::string winograd = "auto";
  bool cuda_graph = true;
  void declare(Fields& fields);
};

/// The number of processes that train together, and their communication. Only sync_batch_norm affects
/// results.
struct ParallelismSection {
  std::optional<AutoCount> data = AutoCount{};
  ByteSize bucket{int64_t{25} << 20};
  TimeSpan timeout{100};
  Duration verify{1000, Duration::Unit::batches};
  bool sync_batch_norm = false, shard_optimizer = false;
  int64_t tensor = 1;             ///< ranks that compute each sample together
  int64_t pipeline = 1;           ///< ranks with layers of their own
  std::vector<std::string> cuts;  ///< layers that stages begin with
  std::string schedule = "1f1b";
  int64_t chunks = 2;             ///< stages of each rank, if interleaved
  FlagOrCount shard_parameters;   ///< a number: of the ranks in a group that shares a copy
  std::string launcher = "auto";  ///< or a path: of the program that starts ranks
  std::optional<FilePath> hosts;
  void declare(Fields& fields);

  PipelineSchedule::Kind parsed_schedule() const;
  /// Stages of each rank.
  int64_t stages_of_rank() const {
    return parsed_schedule() == PipelineSchedule::Kind::interleaved ? chunks : 1;
  }
};

struct TrainingSection {
  Duration max_duration{10, Duration::Unit::epochs};
  int64_t global_batch_size = 128;
  std::optional<AutoCount> micro_batch_size;
  std::string precision{to_string(Precision::fp32)};
  std::optional<double> ema_decay;  ///< absent: weights are not averaged
  bool ema_warmup = false;
  void declare(Fields& fields);

  Precision parsed_precision() const { return *precision_named(precision); }
};

struct GuardSection {
  std::string nonfinite = "stop", spike = "none", gradient_spike = "none";
  double spike_sigmas = 6;
  int64_t spike_window = 128, max_skips = 10, max_rollbacks = 3;
  std::vector<int64_t> skip_steps;
  void declare(Fields& fields);

  /// The work of the program in each step, and of the loop after it.
  StepGuards step_guards(bool scales_loss) const;
  GuardSettings settings() const;
};

struct ValidationSection {
  Duration interval{1, Duration::Unit::epochs};
  std::vector<std::string> metrics{"top1"};
  std::optional<std::string> stop_metric;  ///< absent: no early stop
  int64_t patience = EarlyStopSettings{}.patience;
  double min_delta = 0;
  void declare(Fields& fields);

  std::optional<EarlyStopSettings> early_stop_settings() const;
};

struct LoggingSection {
  Duration interval{50, Duration::Unit::batches};
  std::vector<std::string> formats{kTensorboard, kCsv};
  std::optional<std::string> mlflow_uri;  ///< absent: no tracker
  std::string mlflow_experiment = "Default";
  std::optional<std::string> wandb;  ///< "offline"; absent: nothing is written
  void declare(Fields& fields);
};

}  // namespace trainer
