// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/optim/optimizer.h"
#include "core/step/guard.h"

namespace trainer {

/// How weights change in a step.
struct UpdateSpec {
  const Optimizer* optimizer = nullptr;
  std::vector<float> learning_rates;  ///< one for each update
  StepGuards guards = {};
  bool adapts_lr = false;  ///< the state "lr_factor" multiplies them
};

/// What the stages of an update hand on to each other. Each tensor is (1), or kNone if it is not made.
struct UpdateState {
  Optimizer::StepInputs inputs;
  /// Of a loss that is normalised by its valid targets: gradients are multiplied by `factor`, which is
  /// 1 / `divisor`.
  TensorId factor = kNone, divisor = kNone;
  /// Of gradients that were measured: what they are multiplied by; not 0 if one is not finite.
  TensorId unscale = kNone, nonfinite = kNone;
  /// Not 0 if a smaller loss scale would not help.
  TensorId keeps_scale = kNone;

  bool normalizes_by_valid_targets() const { return factor != kNone; }
  bool is_measured() const { return unscale != kNone; }
};

/// A stage of the update at work.
struct Update {
  Update(Program& whole, Entry& updating, const UpdateSpec& wanted, UpdateState& shared);

  Program& program;
  Entry& entry;
  Builder build;
  const UpdateSpec& spec;
  UpdateState& state;
};

/// Puts out "lr", the learning rate of this update.
void look_up_learning_rate(Update& update);
/// Puts out a loss that is normalised by its valid targets as the mean over those of the whole step, of every
/// micro-batch and rank. Does nothing for other losses.
void average_loss(Update& update);
/// Decides whether this step is skipped. Gradients are measured if the loss is scaled, if the guard
/// counts, or where it watches a loss and either their norm is limited anyway or an operation hides NaN from
/// that loss. Puts out "grad_norm" if the norm is measured.
void guard_step(Update& update);
/// Limits gradients by value, then by their joint norm, and undoes what the loss was multiplied by.
void limit_gradients(Update& update);
/// Moves the loss scale (Micikevicius et al., "Mixed Precision Training", ICLR 2018), and puts it out.
void move_loss_scale(Update& update);
/// Changes every parameter of the entry's gradients by the optimiser's rule, and counts "counter.updates" and
/// "counter.step" up. A skipped step changes nothing but the latter.
void change_parameters(Update& update);

/// The number (1) that is not 0 if the update in this entry is skipped; kNone if it never is.
TensorId skip_of(const Entry& entry);

/// Whether autodiff multiplied the loss by a scale.
bool scales_loss(const Program& program);
/// What gradients are to be divided by, (1): the scale, or 1 if there is none.
TensorId scale_of_loss(Program& program);

}  // namespace trainer
