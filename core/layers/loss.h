// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/config/fields.h"
#include "core/graph/builder.h"
#include "core/graph/ops/cross_entropy_sums.h"
#include "core/graph/pixel_numbers.h"

namespace trainer {

/// The kind of a loss's targets: a label for each sample, position or pixel; for each class whether the
/// sample has it; or numbers, which a table has, and otherwise are the network's input.
enum class TargetKind { label, label_set, numbers };

/// The targets of an output: a label for each sample (N), each position (N, T) or each pixel
/// (N, H, W), or a number for each of its own.
struct Targets {
  TensorId labels = kNone;                             ///< i32
  TensorId values = kNone;                             ///< f32, of the output's shape, in place of labels
  TensorId weights = kNone;                            ///< f32 (N)
  TensorId other_labels = kNone, mix_weights = kNone;  ///< (N), of mixed samples; kNone: none are mixed
  int32_t ignored_label = kNoLabel;                    ///< of positions without a valid target
  std::span<const double> balanced_weights = {};       ///< of each class; empty: not known yet
  const PixelNumbers* pixels = nullptr;                ///< of `values`, if these are images
  TensorId teacher = kNone;                            ///< logits of a trained network, of the output's shape
};

/// A trained network that another one learns from.
struct Teacher {
  FilePath recipe, weights;  ///< the latter: a file, or a run's directory
};

/// The parts of a loss, each (1). The loss is `sum` or, normalised by valid targets, sum / weight. Both are
/// sums over all samples, of every micro-batch and rank.
struct LossSums {
  TensorId sum;
  TensorId weight = kNone;         ///< kNone: the loss does not count
  TensorId valid_targets = kNone;  ///< positions that it does not ignore
};

/// The value that training minimises.
class Loss : public Component {
 public:
  virtual TargetKind target_kind() const { return TargetKind::label; }
  /// Of an output (N, ...), weighted sums over samples. Labels are those of logits (N, C), (N, T, C) or
  /// (N, C, H, W).
  virtual LossSums build(Builder& build, TensorId output, const Targets& targets) const = 0;
  /// Whether it is a mean over valid targets, rather than over all samples.
  virtual bool normalizes_by_valid_targets() const { return false; }
  /// The label that metrics ignore, too; kNoLabel if there is none.
  virtual int32_t ignored_label() const { return kNoLabel; }
  /// Sets that label, unless the recipe gives another.
  virtual void ignore_by_default(int32_t /*label*/) {}
  /// Whether the labels of training decide on the weights of the classes.
  virtual bool balances_classes() const { return false; }
  /// The network whose logits training needs as Targets::teacher; null: none.
  virtual const Teacher* teacher() const { return nullptr; }
};
const Registry<Loss>& losses();

/// The rows of that table that have a file of their own.
Registered<Loss> distillation_loss();

}  // namespace trainer
