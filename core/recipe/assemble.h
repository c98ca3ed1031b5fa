// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/recipe/run_spec.h"
#include "core/step/step.h"
#include "core/tasks/task.h"
#include "core/train/batch_feed.h"

namespace trainer {

/// Inputs of a program besides the specification.
struct ProgramRequest {
  ProgramUse use;
  std::vector<float> lr_table;  ///< one learning rate per update
  std::vector<double> balanced_weights =
      {};                 ///< of each class, if loss.class_weights is balanced and data is there
  bool is_async = false;  ///< such a device gets images as bytes: a quarter of the copy
  std::map<std::string, SampleSet> samples;                  ///< on the device, by entry; usually none
  std::vector<std::string> disabled;                         ///< optional passes to leave out
  const Planner* planner = nullptr;                          ///< of the device, if it is known
  std::shared_ptr<const Int8Network> int8 = {};              ///< of the file of weights; null: f32
  std::shared_ptr<const RangeObservation> observation = {};  ///< null: nothing is observed
  int64_t rounds_from = 0;                                   ///< the step compression.quantize begins with
};

/// The stages and passes that make the program, in order. The recipe must outlive them. Throws Error: exit 78
/// if the recipe contradicts itself, 64 if `disabled` names anything but an optional pass.
std::vector<Pass> passes_for(const RunSpec& run, const ProgramRequest& request);

/// The program that these stages and passes make. Passes on what they throw; a layer whose tensor has the
/// name of another one of the program is refused with Error (exit 78).
Program make_program(const RunSpec& run, const std::vector<Pass>& passes, const PassObserver& observe = {});

/// The forward part alone, with loss and metrics. Shapes that do not fit throw Error (exit 78) at their
/// layer.
Program forward_program(const RunSpec& run, const ProgramUse& use = {});
/// The program of prediction in 8 bits for export (step.h, int8_stages). Throws Error (exit 65) if `int8`
/// belongs to another network.
Program int8_program(const RunSpec& run, const std::shared_ptr<const Int8Network>& int8);

/// Refuses what all ranks would refuse, before they are started: shapes that do not fit, and operations that
/// the ranks cannot share. Throws Error (exit 78).
void check_network(const RunSpec& run);

/// The network's task, determined by its output and the loss.
const Task& task_of(const RunSpec& run);
/// Number of classes that the network distinguishes; 0: it has no use for labels.
int64_t class_count(const RunSpec& run);
/// Names that evaluation reports: the loss, the recipe's metrics, and with `averages` the same of averaged
/// weights.
std::vector<Metric> evaluated_metrics(const RunSpec& run, bool averages);
/// Throws Error (exit 78) if `trainer predict` cannot print any of the network's output.
void check_prediction(const RunSpec& run);
/// The contents of batches for a finished program: its inputs, and labels to print beside predictions.
BatchInputs batch_contents(const RunSpec& run, const Program& program);

}  // namespace trainer
