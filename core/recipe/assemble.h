// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/data/formats.h"
#include "core/graph/names.h"
#include "core/passes/pass.h"
#include "core/recipe/run_spec.h"
#include "core/tasks/task.h"
#include "core/train/batch_feed.h"

namespace trainer {

/// What a program is for: training has the entry points `train_step` and `evaluate`, evaluation `evaluate`,
/// prediction `predict`, which gives the logits of pictures without labels, and generation `prefill` and
/// `decode` (core/recipe/generation.h).
enum class Purpose { train, evaluate, predict, generate };

/// What generation computes at once.
struct SequenceExtents {
  int64_t sequences = 1;  ///< side by side, all at the same position
  int64_t positions = 0;  ///< of each, that caches hold; 0: as many as the network's input has
  int64_t piece = 0;      ///< positions of `prefill`; 0: as many as suit the positions
};

/// The network's forward part with loss and metrics; `extents` are those of generation. Shapes that do not
/// fit throw Error (exit 78) at their layer.
Program forward_program(const RunSpec& spec, Purpose purpose = Purpose::train,
                        const SequenceExtents& extents = {});

/// Throws Error (exit 78) at an embedding whose table is smaller than the network's outputs: token ids reach
/// these.
void check_vocabulary(const Program& program, int64_t outputs);

/// Of the network's output, micro-batch first.
const Shape& logits_shape(const Program& program);
/// What the network is trained for, by its output and the loss.
const Task& task_of(const Recipe& recipe, const Program& program);
/// Classes that the network tells apart; 0: it has no use for labels.
int64_t class_count(const Recipe& recipe, const Program& program);
/// What evaluation reports: the loss, the recipe's metrics, and with `averages` the same of averaged weights.
std::vector<Metric> evaluated_metrics(const Recipe& recipe, const Program& program, bool averages);
/// Throws Error (exit 78) where `trainer predict` has nothing to print of the network's output.
void check_prediction(const Recipe& recipe, const Program& program);
/// What batches for a finished program hold: its inputs, and labels to print beside predictions.
BatchInputs batch_contents(const Recipe& recipe, const Program& program);

/// What passes depend on besides the recipe.
struct PassSetting {
  Purpose purpose = Purpose::train;
  bool averages = false;                     ///< without training: averages are given, and evaluated too
  std::vector<float> lr_table;               ///< one learning rate per update
  bool is_async = false;                     ///< such a device gets pictures as bytes: a quarter of the way
  std::map<std::string, SampleSet> samples;  ///< on the device, by entry; usually none
  std::vector<std::string> disabled;         ///< optional passes to leave out
  const Planner* planner = nullptr;          ///< of the device, where it is known
};

/// Everything between the forward program and the finished one, in order. Names in `disabled` that are those
/// of no optional pass throw Error (exit 64).
std::vector<Pass> passes_for(const RunSpec& run, const PassSetting& setting);

}  // namespace trainer
