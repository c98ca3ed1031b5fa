// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/base/mesh.h"
#include "core/passes/pass.h"
#include "core/quantization/int8_network.h"
#include "core/step/fake_quantize.h"
#include "core/step/forward.h"
#include "core/step/prune.h"
#include "core/step/stage_cuts.h"
#include "core/step/update.h"

namespace trainer {

class Planner;

// The stages of a step, a file each; step.cpp says in which order.

/// Writes the network's operations into the entries that the purpose needs, and notes their outputs in
/// `logits`. Shapes that do not fit throw Error (exit 78) at their layer.
Pass forward(const ForwardSpec& spec, const std::shared_ptr<Logits>& logits);
/// Puts the operations of the teacher before those of `train_step`, and notes its logits. Its tensors are
/// constants: training neither changes nor saves them. Throws Error (exit 78) if it has other inputs or
/// outputs.
Pass teacher(const ForwardSpec& spec, const std::shared_ptr<Logits>& logits);
/// Compares these outputs with targets: adds the loss to every entry, and the further outputs of evaluation
/// to `evaluate`.
Pass loss(const ForwardSpec& spec, const std::shared_ptr<Logits>& logits);

/// The entry that the update is in: `update` if there are micro-batches, else `train_step`.
const char* updating_entry(const Program& program);

/// Tensor parallelism (Shoeybi et al., "Megatron-LM", 2019): the ranks along Axis::tensor compute the same
/// samples together, each with a part of the parameters (tensor_cuts.h). Between the products that they share
/// each has some rows of the activations. Throws Error (exit 78) with this origin if nothing can be shared.
/// Comes before all fusions.
Pass tensor_parallel(const Mesh& mesh, const Origin& origin);
/// Pipeline parallelism (Huang et al., "GPipe", NeurIPS 2019): divides the layers into stages, which follow
/// each other on the ranks along Axis::pipeline. Comes before all fusions.
Pass cut_stages(const Network& network, const PipelineSpec& spec);
/// Leaves the program that one rank of a pipeline computes: its stages' nodes, with Receive for what comes
/// from other stages and outputs for what goes there. Comes before the step is split for micro-batches.
Pass own_stage(const PipelineSchedule& schedule, const Mesh& mesh, int64_t position);
/// Adds up, over the stages, the loss and the gradients of parameters that several stages hold.
Pass sum_stages();
/// Makes one run of each entry compute all micro-batches of a step, in the order of the schedule. Inputs then
/// have the samples of all micro-batches.
Pass schedule_stages(const PipelineSchedule& schedule);
/// Computes a loss of logits whose classes ranks share: each finds sums of its own, and exchanges these.
/// Comes after differentiation.
Pass exchange_logits();
/// Casts each operation's inputs to the type that it requires (Operation::input_type): products and the
/// operations after them are computed in `low`. Outputs stay f32. `planner` says which losses read logits of
/// the low type; without one all get f32.
Pass mixed_precision(DType low, const Planner* planner = nullptr);
/// Fully sharded data parallelism (Zhao et al., "PyTorch FSDP", VLDB 2023): each of the ranks that share a
/// copy holds an equal part of every parameter, and so of its moments, averages and gradient sums. What reads
/// a parameter gathers it first; its gradient is added up over these ranks part by part. Comes before
/// differentiation, which writes the latter.
Pass shard_parameters(const Mesh& mesh);
/// Appends to `train_step` the gradient of its output "loss" with respect to every parameter it uses that is
/// not frozen; with `scales_loss` of the loss times the state loss_scale, which the update then has to undo.
Pass autodiff(bool scales_loss = false);
/// Makes batch normalisation in `train_step` take its statistics over the micro-batches of all ranks.
Pass sync_batch_norm(int64_t ranks);
/// Splits `train_step` for `micro_batches` > 1: gradients are summed over runs of `accumulate_first` and
/// `accumulate_next`, and `update` finds the sums.
Pass accumulate(int64_t micro_batches);
/// Sums the loss of a step of micro-batches, for the guard and for other ranks.
Pass sum_losses();
/// Adds up the gradients of all ranks, and with them the loss and the updates of running statistics.
/// Gradients are all-reduced in buckets of about this many bytes, each as soon as its last gradient is made.
/// So this overlaps the backward part; the update comes after all of them. Of several micro-batches the last,
/// `accumulate_last`, communicates. Its loss is then the whole step's. Gradients of parts are added up over
/// the copies of the parameters alone. `shares`: the micro-batches of each rank along Axis::data; one with a
/// single micro-batch, where others have several, runs `accumulate_only`.
Pass data_parallel(const Mesh& mesh, const std::vector<int64_t>& shares, int64_t bucket_bytes);

// The update, in stages that share a state: see update.h.
Pass learning_rate(const UpdateSpec& spec, const std::shared_ptr<UpdateState>& state);
Pass mean_loss(const UpdateSpec& spec, const std::shared_ptr<UpdateState>& state);
Pass guard(const UpdateSpec& spec, const std::shared_ptr<UpdateState>& state);
Pass clip_gradients(const UpdateSpec& spec, const std::shared_ptr<UpdateState>& state);
Pass adapt_loss_scale(const UpdateSpec& spec, const std::shared_ptr<UpdateState>& state);
Pass apply_update(const UpdateSpec& spec, const std::shared_ptr<UpdateState>& state);

/// ZeRO stage 1 (Rajbhandari et al., SC 2020) with whole parameters: each rank holds the moments of some,
/// updates these, and sends them to all. Every rank has all gradients, so the stages before the update stay
/// as they are.
Pass shard_optimizer(int64_t ranks);
/// Replaces the gathers and scatters of parts by halves, so that they overlap computation. Those that follow
/// each other travel in buckets of about this many bytes. A bucket is gathered while the operations before it
/// are computed that read the bucket before; a bucket of gradients is scattered until the next one starts.
/// Comes last.
Pass overlap_collectives(int64_t bucket_bytes);
/// If the update can be skipped, a skipped step leaves running statistics unchanged. Without micro-batches
/// they are updated at the end of the step, at no cost; with them a copy of each from before the step is
/// kept.
Pass guard_statistics();
/// Notes in the program which weights are pruned; see prune.h. Comes before all fusions.
Pass choose_pruned(const PruneSpec& spec);
/// Applies the masks of pruned weights, NAME.mask, to their gradients, so that norms and moments have nothing
/// of what is gone, as in PyTorch. The loop sets masks between steps. Weights without a gradient are not
/// pruned.
Pass prune_gradients();
/// Applies the masks to what the update gives: moments from before a weight was taken out still move it. The
/// average of a masked weight, once it is zero, stays so by itself.
Pass prune();
/// Rounds weights and inputs of products to few bits, but computes in f32 (Jacob et al., CVPR 2018); see
/// fake_quantize.h. The range of an input is the state NAME.range f32 (2), with NAME the product's weights:
/// its least and greatest value, zero included, which training moves as it moves running statistics. Batch
/// normalisations with given statistics are folded into their convolutions first, as in 8 bits. Comes before
/// all fusions.
Pass fake_quantize(const FakeQuantizeSpec& spec);
/// After each update moves NAME.ema by 1 - decay towards NAME, for every parameter and running statistic,
/// unless the step was skipped; `evaluate_averages` is `evaluate` with these. With `warmup_updates`, those of
/// the run, the decay of update t is at most (1 + t) / (10 + t).
Pass average_weights(double decay, size_t warmup_updates = 0);
/// Computes products in 8 bits (ops/quantized_product.h), whose inputs have these ranges: weights are
/// quantised by `prepare`, and products pass bytes to each other. Throws Error (exit 65) if the network has
/// no such products. Comes after the fusions of the forward part.
Pass quantize(const std::shared_ptr<const Int8Network>& network);
/// Adds outputs with the extremes, and if the ranges are known the distributions, of the inputs of all
/// products that can be computed in 8 bits (quantized_products.h). Comes at the same place.
Pass observe_ranges(const std::shared_ptr<const RangeObservation>& observation);
/// `evaluate_averages` for a program that is not trained: `evaluate` with a state NAME.ema in place of every
/// parameter and running statistic.
Pass given_averages();

}  // namespace trainer
