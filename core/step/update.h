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

/// State that the stages of an update pass on. Each tensor is (1), or kNone if it is not made.
struct UpdateState {
  Optimizer::StepInputs inputs;
  /// Of a loss that is normalised by its valid targets: gradients are multiplied by `factor`, which is
  /// 1 / `divisor`.
  TensorId factor = kNone, divisor = kNone;
  /// Of measured gradients: the factor to multiply them by; not 0 if one is not finite.
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

/// Outputs "lr", the learning rate of this update.
void look_up_learning_rate(Update& update);
/// Outputs a loss that is normalised by its valid targets as the mean over those of the whole step, of every
/// micro-batch and rank. Does nothing for other losses.
void average_loss(Update& update);
/// Decides whether this step is skipped. Gradients are measured if the loss is scaled or the guard counts. If
/// it watches a loss, they are measured if their norm is limited anyway or an operation hides NaN from that
/// loss. Outputs "grad_norm" if the norm is measured.
void guard_step(Update& update);
/// Limits gradients by value, then by their joint norm, and undoes the scaling of the loss.
void limit_gradients(Update& update);
/// Updates the loss scale (Micikevicius et al., "Mixed Precision Training", ICLR 2018), and outputs it.
void move_loss_scale(Update& update);
/// Updates every parameter of the entry's gradients by the optimiser's rule, and increments "counter.updates"
/// and "counter.step". A skipped step changes only the latter.
void change_parameters(Update& update);

/// Tensors with the joint 2-norm of all gradients: those that every rank has, and one with the norm of each
/// rank's parts, or of each stage's.
std::vector<TensorId> measured_gradients(Update& update);

/// The number (1) that is not 0 if the update in this entry is skipped; kNone if it never is.
TensorId skip_of(const Entry& entry);

/// Whether autodiff multiplied the loss by a scale.
bool scales_loss(const Program& program);
/// The divisor of gradients, (1): the scale, or 1 if there is none.
TensorId scale_of_loss(Program& program);

}  // namespace trainer
