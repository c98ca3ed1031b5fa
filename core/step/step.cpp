// SPDX-License-Identifier: Apache-2.0
#include "core/step/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Stages and the optional passes between them, in order.
class Sequence {
 public:
  explicit Sequence(const PassSettings& settings) : settings_(settings) {}

  void stage(Pass pass) { all_.push_back(std::move(pass)); }
  void passes(Place place) {
    for (Pass& pass : passes_at(place, settings_)) stage(std::move(pass));
  }

  /// The program that was assembled, without these passes.
  std::vector<Pass> without(const std::vector<std::string>& names) {
    for (const std::string& name : names) leave_out(name);
    check_order(all_);
    return std::move(all_);
  }

 private:
  void leave_out(const std::string& name) {
    const auto found =
        std::ranges::find_if(all_, [&](const Pass& pass) { return pass.name == name && pass.optional; });
    if (found == all_.end()) {
      std::vector<std::string> optional;
      for (const Pass& pass : all_) {
        if (pass.optional) optional.push_back(pass.name);
      }
      throw Error(ExitCode::usage, fmt::format("unknown optional pass '{}'; optional passes: {}", name,
                                               fmt::join(optional, ", ")));
    }
    all_.erase(found);
  }

  const PassSettings& settings_;
  std::vector<Pass> all_;
};

}  // namespace

std::vector<Pass> training_step(const StepSpec& spec) {
  const std::optional<DType> low = low_type(spec.precision);
  const bool is_scaled = scales_loss(spec.precision);
  const int64_t replicas = spec.mesh.size(Axis::data);
  const bool has_peers = replicas > 1;
  std::vector<int64_t> shares = spec.shares;
  if (shares.empty()) shares.assign(static_cast<size_t>(replicas), spec.micro_batches);
  const auto logits = std::make_shared<Logits>();
  const auto update = std::make_shared<UpdateState>();
  Sequence step(spec.passes);
  step.stage(forward(spec.forward, logits));
  if (spec.forward.teacher) step.stage(teacher(spec.forward, logits));
  step.stage(loss(spec.forward, logits));
  if (spec.prune) step.stage(choose_pruned(*spec.prune));
  if (spec.fake_quantize) step.stage(fake_quantize(*spec.fake_quantize));
  const bool shares_tensors = spec.mesh.tensor > 1, has_parts = spec.mesh.shards > 1;
  if (shares_tensors) step.stage(tensor_parallel(spec.mesh, spec.tensor_origin));
  const bool has_stages = spec.mesh.stages > 1;
  const int64_t position = spec.mesh.coordinate(Axis::pipeline, spec.rank);
  if (has_stages) step.stage(cut_stages(*spec.forward.network, spec.pipeline));
  step.passes(Place::forward);
  if (low) step.stage(mixed_precision(*low, spec.passes.planner));
  step.passes(Place::inputs);
  if (has_parts) step.stage(shard_parameters(spec.mesh));
  step.stage(autodiff(is_scaled));
  if (shares_tensors) step.stage(exchange_logits());
  step.passes(Place::backward);
  if (spec.sync_batch_norm && has_peers) step.stage(sync_batch_norm(replicas));
  step.passes(Place::micro_batch);
  if (has_parts || shares_tensors) step.stage(gather_again());
  if (has_stages) step.stage(own_stage(spec.pipeline.schedule, spec.mesh, position));
  step.stage(accumulate(std::ranges::max(shares)));
  step.passes(Place::accumulated);
  if (spec.update.guards.loss || spec.forward.loss->normalizes_by_valid_targets() || has_peers || has_stages)
    step.stage(sum_losses());
  if (has_peers) step.stage(data_parallel(spec.mesh, shares, spec.bucket_bytes));
  if (has_stages) step.stage(sum_stages());
  step.passes(Place::reduced);
  step.stage(learning_rate(spec.update, update));
  step.stage(mean_loss(spec.update, update));
  if (spec.prune) step.stage(prune_gradients());
  step.stage(guard(spec.update, update));
  step.stage(clip_gradients(spec.update, update));
  if (is_scaled) step.stage(adapt_loss_scale(spec.update, update));
  step.stage(apply_update(spec.update, update));
  if (spec.shard_optimizer && has_peers) step.stage(shard_optimizer(replicas));
  if (spec.update.guards.counts || is_scaled) step.stage(guard_statistics());
  if (spec.prune) step.stage(prune());
  if (spec.ema_decay) {
    const size_t updates = spec.ema_warmup ? spec.update.learning_rates.size() : 0;
    step.stage(average_weights(*spec.ema_decay, updates));
  }
  step.passes(Place::finished);
  if (has_stages) step.stage(schedule_stages(spec.pipeline.schedule));
  if (has_parts || shares_tensors || has_stages) step.stage(overlap_collectives(spec.bucket_bytes));
  return step.without(spec.left_out);
}

std::vector<Pass> forward_stages(const ForwardSpec& spec) {
  const auto logits = std::make_shared<Logits>();
  std::vector<Pass> stages = {forward(spec, logits)};
  if (spec.teacher) stages.push_back(teacher(spec, logits));
  if (spec.has_targets()) stages.push_back(loss(spec, logits));
  return stages;
}

std::vector<Pass> int8_stages(const ForwardSpec& spec, const std::shared_ptr<const Int8Network>& int8) {
  std::vector<Pass> stages = forward_stages(spec);
  stages.insert(stages.end(), {fold_batch_norm(), fuse_addend(nullptr), fuse_relu(), quantize(int8)});
  check_order(stages);
  return stages;
}

std::vector<Pass> inference(const StepSpec& spec) {
  const std::optional<DType> low = low_type(spec.precision);
  Sequence step(spec.passes);
  for (Pass& stage : forward_stages(spec.forward)) step.stage(std::move(stage));
  step.passes(Place::forward);
  if (spec.int8) step.stage(quantize(spec.int8));
  if (spec.observation) step.stage(observe_ranges(spec.observation));
  if (low) step.stage(mixed_precision(*low, spec.passes.planner));
  step.passes(Place::inputs);
  step.passes(Place::backward);
  step.passes(Place::micro_batch);
  step.passes(Place::accumulated);
  step.passes(Place::reduced);
  if (spec.forward.use.averages) step.stage(given_averages());
  step.passes(Place::finished);
  return step.without(spec.left_out);
}

}  // namespace trainer
