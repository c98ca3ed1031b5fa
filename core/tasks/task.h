// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/variant.h"
#include "core/graph/builder.h"
#include "core/graph/names.h"
#include "core/graph/pixel_numbers.h"
#include "core/layers/loss.h"
#include "core/tasks/metric.h"

namespace trainer {

/// Facts about a recipe and its network for its task.
struct TaskContext {
  Shape input;  ///< of a sample, as the network's input
  InputKind input_kind = InputKind::pixels;
  Shape output;                                    ///< of the network, micro-batch first
  std::string format;                              ///< data.format
  bool gives_label_maps = false;                   ///< that format has a label for every pixel
  std::vector<std::string> formats_of_label_maps;  ///< all that have
  bool reads_masks = false;                        ///< these labels are in files
  bool gives_label_sets = false;                   ///< that format may have several labels for each image
  bool mixes = false;                              ///< training samples are mixed with others
  bool corrupts = false;                           ///< the images that the network reads are corrupted
  std::function<Origin(const std::string& key)> origin_of;
};

/// A sum over samples that evaluation can output, for metrics to be computed from.
struct MetricSum {
  std::string output;
  /// From the network's output and its targets -> (1), a weighted sum over the batch.
  TensorId (*build)(Builder& build, TensorId output, const Targets& targets);
};

/// One printed entry of a predicted sample: a number, a text, a list, a number for each class, or pairs
/// (class, number).
struct PredictedField {
  using Pairs = std::vector<std::pair<int64_t, double>>;
  std::string name;
  Variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<std::string>, std::vector<double>,
          Pairs>
      value;
  bool follows_classes = false;  ///< a list of numbers is of the field "classes", in its order, not of all
};

/// A target of numbers: a network computes (target - mean) / deviation.
struct TargetUnit {
  std::string name;
  double mean = 0, deviation = 1;
};

/// Options of a prediction.
struct PredictionRequest {
  std::optional<size_t> top = std::nullopt;  ///< number of most likely classes; nothing: the task's default
  bool all = false;                          ///< every class's share instead
  const std::vector<std::string>& class_names;
  Shape output = {};                     ///< of a sample
  std::span<const float> input = {};     ///< the sample as the network reads it, if it is known
  std::vector<TargetUnit> targets = {};  ///< of regression
};

/// A prediction compared with the sample's labels.
struct Judgement {
  bool is_right = false;
  double certainty = 0;  ///< probability of what was predicted, or of the wrong class that is most certain
};

/// What `predict --images` writes of a prediction.
enum class Drawing {
  none,
  image,  ///< that of Task::draw
  masks,  ///< the class of each pixel, in the size of the sample's own image
};

/// An image that a prediction draws: bytes, (C, H, W) with 1 or 3 channels.
struct PredictedImage {
  Shape shape;
  std::vector<uint8_t> pixels;
};

/// A network's task: the inputs that its output is compared with, the loss, the metrics, and its predictions.
/// Holds no state.
class Task {
 public:
  virtual ~Task() = default;
  virtual std::string_view name() const = 0;
  /// Whether it is the task of a network with this output, micro-batch first, this loss and this input.
  virtual bool applies_to(const Shape& output, TargetKind kind, InputKind input) const = 0;

  /// Declares the inputs that the network's output is compared with; those of training only in training.
  /// Throws Error (exit 78) if recipe and network do not suit the task.
  virtual Targets declare_inputs(Program& program, const TaskContext& context, bool training) const = 0;
  virtual LossSums build_loss(Builder& build, const Loss& loss, TensorId output,
                              const Targets& targets) const {
    return loss.build(build, output, targets);
  }

  /// The metrics that a recipe's `validation.metrics` may name. The loss is reported beside them.
  virtual const std::vector<Metric>& metrics() const = 0;
  /// The outputs of `evaluate` that these metrics may need.
  virtual const std::vector<MetricSum>& sums() const = 0;

  /// The output of `evaluate` that a confusion matrix is counted from.
  virtual TensorId build_cells(Builder& build, TensorId output, const Targets& targets) const;

  /// The number of classes that this output distinguishes; labels are below it. 0: it has no use for labels.
  virtual int64_t classes(const Shape& output) const = 0;
  /// Whether a sample has a set of labels, of any size, rather than one.
  virtual bool has_label_sets() const { return false; }
  /// Throws Error (exit 78) if `trainer predict` cannot print anything of this output.
  virtual void check_prediction(const TaskContext& context) const = 0;
  /// Of one sample's output, with finite numbers only.
  virtual std::vector<PredictedField> predict(std::span<const float> output,
                                              const PredictionRequest& request) const = 0;
  /// Whether samples have labels that judge() compares a prediction with.
  virtual bool judges() const { return false; }
  virtual Judgement judge(std::span<const float> output, std::span<const int64_t> labels) const;

  /// Whether average() means anything: predictions do not depend on where left is.
  virtual bool averages_mirrored() const { return false; }
  /// Replaces the output of a sample, of this shape, by one whose probabilities are the means of its own and
  /// those of `mirrored`, the output of the mirrored sample.
  virtual void average(std::span<float> output, std::span<const float> mirrored, const Shape& shape) const;

  virtual Drawing drawing() const { return Drawing::none; }
  virtual PredictedImage draw(std::span<const float> output, const Shape& shape,
                              const PixelNumbers& numbers) const;
};

/// All tasks. Each output has one that applies to it, by the loss and the input.
const std::vector<std::unique_ptr<Task>>& tasks();
const Task& task_for(const Shape& output, TargetKind kind = TargetKind::label,
                     InputKind input = InputKind::pixels);

/// The metrics of all tasks, each name once.
std::vector<Metric> all_metrics();
/// The direction of the metric of this name, the loss and those of averaged weights included; nothing if
/// no task has it.
std::optional<Direction> direction_of(std::string_view metric);

}  // namespace trainer
