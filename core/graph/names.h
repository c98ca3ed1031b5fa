// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Names through which layers, passes, optimisers, the data pipeline and the training loop meet in a program.
/// N: rows of a micro-batch.
namespace trainer {

namespace entry_name {
constexpr const char* kTrainStep = "train_step";
constexpr const char* kAccumulateFirst = "accumulate_first";
constexpr const char* kAccumulateNext = "accumulate_next";
constexpr const char* kUpdate = "update";
constexpr const char* kEvaluate = "evaluate";
constexpr const char* kEvaluateAverages = "evaluate_averages";
constexpr const char* kPredict = "predict";
}  // namespace entry_name

namespace input_name {
constexpr const char* kImages = "images";    ///< f32 (N, C, H, W), or u8 where the device scales them
constexpr const char* kLabels = "labels";    ///< i32 (N) or (N, H, W)
constexpr const char* kWeights = "weights";  ///< f32 (N)
constexpr const char* kSampleIndex = "sample_index";  ///< i32 (N), within the global batch
constexpr const char* kOtherLabels = "other_labels";  ///< i32 (N), only where samples are mixed
constexpr const char* kMixWeights = "mix_weights";    ///< f32 (N), of `labels`; only where samples are mixed
constexpr const char* kSampleNumbers = "sample_numbers";  ///< i32 (N), of samples on the device
constexpr const char* kSampleEpochs = "sample_epochs";    ///< i32 (N), of samples on the device
}  // namespace input_name

/// Samples that lie on the device, by split: "samples.train".
namespace samples_name {
constexpr const char* kSamples = "samples.";             ///< u8 (size, C, H, W)
constexpr const char* kSampleLabels = "sample_labels.";  ///< i32 (size)
}  // namespace samples_name

/// All but the logits have one element.
namespace output_name {
constexpr const char* kLoss = "loss";      ///< a weighted sum over samples
constexpr const char* kLogits = "logits";  ///< f32 (N, classes) or (N, classes, H, W)
constexpr const char* kLearningRate = "lr";
constexpr const char* kGradientNorm = "grad_norm";      ///< before clipping
constexpr const char* kLossScale = "loss_scale";        ///< of the next step
constexpr const char* kOverflows = "skipped";           ///< steps so far whose gradients overflowed
constexpr const char* kGuardReason = "guard_reason";    ///< a SkipReason
constexpr const char* kGuardSkipped = "guard_skipped";  ///< steps so far
constexpr const char* kGuardInARow = "guard_in_a_row";
}  // namespace output_name

/// Persistent tensors.
namespace state_name {
constexpr const char* kStep = "counter.step";        ///< i32 (1), batches consumed
constexpr const char* kUpdates = "counter.updates";  ///< i32 (1), updates applied
constexpr const char* kLossScale = "loss_scale";     ///< f32 (1)
constexpr const char* kOne = "one";                  ///< f32 (1), a constant
}  // namespace state_name

}  // namespace trainer
