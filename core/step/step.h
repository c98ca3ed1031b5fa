// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/mesh.h"
#include "core/base/precision.h"
#include "core/passes/table.h"
#include "core/quantization/int8_network.h"
#include "core/step/fake_quantize.h"
#include "core/step/forward.h"
#include "core/step/prune.h"
#include "core/step/stage_cuts.h"
#include "core/step/update.h"

namespace trainer {

/// The inputs of a program's construction.
struct StepSpec {
  ForwardSpec forward;
  PassSettings passes;  ///< with the device's planner
  Precision precision = Precision::fp32;
  int64_t micro_batches = 1;                 ///< that each rank computes in a step
  std::vector<int64_t> shares = {};          ///< instead, by position along Axis::data, if they are unequal
  Mesh mesh;                                 ///< of the ranks that train together
  int64_t rank = 0;                          ///< among them
  Origin tensor_origin;                      ///< of the request that ranks share operations
  PipelineSpec pipeline;                     ///< if there are several stages
  bool sync_batch_norm = false;              ///< statistics are those of all ranks
  bool shard_optimizer = false;              ///< each rank holds a share of the moments
  int64_t bucket_bytes = int64_t{25} << 20;  ///< of tensors that travel together
  UpdateSpec update;
  std::optional<PruneSpec> prune;
  std::optional<FakeQuantizeSpec> fake_quantize;        ///< training only
  std::shared_ptr<const Int8Network> int8;              ///< inference: products in 8 bits; null: none
  std::shared_ptr<const RangeObservation> observation;  ///< inference: null: nothing is observed
  std::optional<double> ema_decay;
  bool ema_warmup = false;            ///< the decay of the first updates is smaller
  std::vector<std::string> left_out;  ///< optional passes that should not run
};

/// The stages of a training step in their order, and between them the optional passes of that place. Throws
/// Error (exit 64) if `left_out` names anything but an optional pass.
std::vector<Pass> training_step(const StepSpec& spec);

/// The first stages alone: the forward part, and the loss unless there are no targets.
std::vector<Pass> forward_stages(const ForwardSpec& spec);

/// The stages of prediction in 8 bits for export: with the passes that decide where values are rounded, and
/// none for a device.
std::vector<Pass> int8_stages(const ForwardSpec& spec, const std::shared_ptr<const Int8Network>& int8);

/// The same for a program that is not trained: evaluation, prediction, generation.
std::vector<Pass> inference(const StepSpec& spec);

}  // namespace trainer
