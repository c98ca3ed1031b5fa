// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <map>
#include <optional>

#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/loss_scale.h"
#include "core/graph/ops/optimizer_steps.h"
#include "core/graph/ops/unary.h"
#include "core/step/step_report.h"
#include "core/step/update.h"

namespace trainer {
namespace {

void clip_values(Update& update, double limit) {
  const elementwise::HardTanh clip{.min_value = -limit, .max_value = limit};
  for (ParameterGradient& pair : update.entry.gradients)
    pair.gradient = update.build.emit<Unary>({pair.gradient}, elementwise::Function(clip));
}

void clip_norm(Update& update, double limit) {
  const auto clipped = update.build.emit_all(std::make_shared<ClipByNorm>(limit), measured_gradients(update));
  update.state.inputs.scale = clipped[ClipByNorm::kScale];
  if (!puts_out(update.entry, &StepReport::grad_norm))
    put_out(update.build, &StepReport::grad_norm, clipped[ClipByNorm::kNorm]);
}

/// The same for gradients that must be divided first.
void divide_and_clip_norm(Update& update, double limit) {
  std::vector<TensorId> read = {update.state.divisor};
  for (const TensorId id : measured_gradients(update)) read.push_back(id);
  const auto found = update.build.emit_all(std::make_shared<Unscale>(limit), read);
  update.state.inputs.scale = found[Unscale::kFactor];
  put_out(update.build, &StepReport::grad_norm, found[Unscale::kNorm]);
}

/// Of a stage that has no gradients.
TensorId no_norm(Program& program) {
  return program.persistent("zero.norm", {{1}, DType::f32}, Role::constant, {});
}

}  // namespace

std::vector<TensorId> measured_gradients(Update& update) {
  std::vector<TensorId> whole;
  std::map<Axis, std::vector<TensorId>> cut;  // along one axis
  std::vector<TensorId> cut_twice;
  Mesh mesh = update.program.mesh;
  for (const ParameterGradient& pair : update.entry.gradients) {
    const Tensor& parameter = update.program.tensor(pair.parameter);
    const bool is_of_other = !parameter.stages.empty() && parameter.stages.front() != update.program.stage;
    if (is_of_other) continue;
    const std::optional<Part>& part = parameter.part;
    if (part) mesh = part->mesh;
    std::vector<TensorId>& list = !part ? whole
                                  : part->sections && part->is_sharded
                                      ? cut_twice
                                      : cut[part->sections ? Axis::tensor : Axis::shards];
    list.push_back(pair.gradient);
  }
  const auto norms = [&](const std::vector<TensorId>& parts, Axis axis) {
    const auto own =
        update.build.emit_all(std::make_shared<ClipByNorm>(std::numeric_limits<double>::infinity()), parts);
    const Along along{axis, mesh.size(axis)};
    return update.build.emit<AllGather>({own[ClipByNorm::kNorm]}, along, Shape{along.ranks}, Work::repeated);
  };
  if (!cut_twice.empty()) cut[Axis::tensor].push_back(norms(cut_twice, Axis::shards));
  for (const auto& [axis, parts] : cut) whole.push_back(norms(parts, axis));
  if (mesh.stages == 1) return whole;
  if (whole.empty()) whole.push_back(no_norm(update.program));
  return {norms(whole, Axis::pipeline)};
}

void limit_gradients(Update& update) {
  UpdateState& state = update.state;
  const auto &value = update.spec.optimizer->clip_value, &norm = update.spec.optimizer->clip_norm;
  const bool is_multiple = scales_loss(update.program) || state.normalizes_by_valid_targets();
  const TensorId factor = state.is_measured() ? state.unscale : state.factor;
  if (value) {
    for (ParameterGradient& pair : update.entry.gradients) {
      if (is_multiple) pair.gradient = update.build.emit<MultiplyBy>({pair.gradient, factor});
    }
    clip_values(update, *value);
    if (norm) clip_norm(update, *norm);
    return;
  }
  // The factor, with the limit of the norm, is applied if the update reads gradients.
  if (is_multiple || (norm && state.is_measured())) state.inputs.scale = factor;
  if (!norm || state.is_measured()) return;
  if (is_multiple) {
    divide_and_clip_norm(update, *norm);
  } else {
    clip_norm(update, *norm);
  }
}

}  // namespace trainer
