// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

/// Names through which layers, passes, optimisers, the data pipeline and the training loop meet in a program.
/// N: rows of a micro-batch.
namespace trainer {

/// A network's input per sample, and a source's output: an image (C, H, W), T tokens, a table's row of F
/// numbers and K categories, T rows of such numbers with the last one's categories, or the last T tokens of a
/// row's text, after padding if it has fewer.
enum class InputKind { pixels, tokens, features, series, text };

/// Whether samples are made of a table's rows.
constexpr bool is_of_table(InputKind kind) {
  return kind == InputKind::features || kind == InputKind::series || kind == InputKind::text;
}

namespace entry_name {
constexpr const char* kTrainStep = "train_step";
constexpr const char* kAccumulateFirst = "accumulate_first";
constexpr const char* kAccumulateNext = "accumulate_next";
constexpr const char* kAccumulateLast = "accumulate_last";  ///< only if ranks add up their gradients
/// The whole of a rank with one micro-batch, where others have several.
constexpr const char* kAccumulateOnly = "accumulate_only";
constexpr const char* kUpdate = "update";
/// All that a training step may run, in order.
inline constexpr std::array kOfStep = {kTrainStep,      kAccumulateOnly, kAccumulateFirst,
                                       kAccumulateNext, kAccumulateLast, kUpdate};
constexpr const char* kEvaluate = "evaluate";
constexpr const char* kEvaluateAverages = "evaluate_averages";
constexpr const char* kPredict = "predict";
constexpr const char* kPrefill = "prefill";  ///< generation: a piece of the prompt into the caches
/// Evaluation, prediction and generation: what depends on weights alone, once before the other entries.
constexpr const char* kPrepare = "prepare";
constexpr const char* kDecode = "decode";  ///< generation: logits of the token after one token
}  // namespace entry_name

namespace input_name {
constexpr const char* kImages = "images";             ///< f32 (N, C, H, W), or u8 if the device scales them
constexpr const char* kCleanImages = "clean_images";  ///< f32 (N, C, H, W), only if images are corrupted
constexpr const char* kTokens = "tokens";             ///< i32 (N, T), a piece of T in `prefill`
/// i32 (N, T), where in its window each token's document begins; only if documents are masked or padded
constexpr const char* kDocumentStart = "document_start";
/// f32 (N, T), of each token in the average of a sample's tokens, 0 for padding; only if samples are padded
constexpr const char* kTokenWeights = "token_weights";
/// i32 (N, 1), of `decode`
constexpr const char* kNextTokens = "next_tokens";
/// i32 (1), in generation: place of the first token
constexpr const char* kFirstPosition = "first_position";
constexpr const char* kFeatures = "features";  ///< f32 (N, F), or (N, T, F) of a series
/// i32 (N, K), rows of one table of all columns' categories
constexpr const char* kCategories = "categories";
constexpr const char* kLabels = "labels";    ///< i32 (N), (N, T) or (N, H, W)
constexpr const char* kTargets = "targets";  ///< f32 (N, C), 1 for each class that a sample has, or numbers
constexpr const char* kWeights = "weights";  ///< f32 (N)
/// i32 (N): each sample's place in the global batch in training, its number in the split otherwise
constexpr const char* kSampleIndex = "sample_index";
constexpr const char* kOtherLabels = "other_labels";      ///< i32 (N), only if samples are mixed
constexpr const char* kMixWeights = "mix_weights";        ///< f32 (N), of `labels`; only if samples are mixed
constexpr const char* kSampleNumbers = "sample_numbers";  ///< i32 (N), of samples on the device
constexpr const char* kSampleEpochs = "sample_epochs";    ///< i32 (N), of samples on the device
}  // namespace input_name

/// Samples that are on the device, by split: "samples.train".
namespace samples_name {
constexpr const char* kSamples = "samples.";             ///< u8 (size, C, H, W)
constexpr const char* kSampleLabels = "sample_labels.";  ///< i32 (size)
}  // namespace samples_name

/// All but the logits and the cells have one element.
namespace output_name {
constexpr const char* kLoss = "loss";                   ///< a weighted sum over samples
constexpr const char* kLossWeight = "loss_weight";      ///< the divisor of the sum, if it is counted
constexpr const char* kValidTargets = "valid_targets";  ///< positions that the loss does not ignore
constexpr const char* kLogits = "logits";  ///< f32 (N, classes), (N, T, classes) or (N, classes, H, W)
constexpr const char* kConfusionCells = "confusion_cells";  ///< i32, a cell for each label
constexpr const char* kLearningRate = "lr";
constexpr const char* kGradientNorm = "grad_norm";      ///< before clipping
constexpr const char* kLossScale = "loss_scale";        ///< of the next step
constexpr const char* kOverflows = "skipped";           ///< steps so far with gradients that overflowed
constexpr const char* kGuardReason = "guard_reason";    ///< a SkipReason
constexpr const char* kGuardSkipped = "guard_skipped";  ///< steps so far
constexpr const char* kGuardInARow = "guard_in_a_row";
}  // namespace output_name

/// Persistent tensors. Checkpoints hold these names.
namespace state_name {
constexpr const char* kStep = "counter.step";                ///< i32 (1), batches consumed
constexpr const char* kUpdates = "counter.updates";          ///< i32 (1), updates applied
constexpr const char* kLearningRates = "lr_table";           ///< f32 (updates), a constant
constexpr const char* kLearningRateFactor = "lr_factor";     ///< f32 (1), of a schedule that follows a metric
constexpr const char* kOne = "one";                          ///< f32 (1), a constant
constexpr const char* kClassWeights = "class_weights";       ///< f32 (classes), a constant
constexpr const char* kPositiveWeights = "pos_weight";       ///< f32 (classes), a constant
constexpr const char* kLossScale = "loss_scale";             ///< f32 (1)
constexpr const char* kGoodSteps = "loss_scale.good_steps";  ///< i32 (1), in a row
constexpr const char* kOverflows = "loss_scale.skipped";     ///< i32 (1)
constexpr const char* kGuardLoss = "guard.loss";             ///< f32 (1), summed over the runs of a step
constexpr const char* kLossWeight = "loss.weight";           ///< f32 (1), summed over the runs of a step
constexpr const char* kGuardSkipped = "guard.skipped";       ///< i32 (1)
constexpr const char* kGuardInARow =
    "guard.in_a_row";                                 ///< i32 (1), skipped steps, without those of skip_steps
constexpr const char* kGuardWindow = "guard.window";  ///< f32 (2, window), last losses and norms
constexpr const char* kGuardAccepted = "guard.accepted";     ///< i32 (1), losses and norms so far
constexpr const char* kGuardSkipSteps = "guard.skip_steps";  ///< i32 (2n), pairs (first, last)
}  // namespace state_name

/// Ends the name of a persistent tensor that belongs to another one of the same shape.
namespace state_suffix {
constexpr const char* kAverage = ".ema";           ///< the average over the updates
constexpr const char* kGradientSum = ".gradient";  ///< over the micro-batches of a step
constexpr const char* kLowPrecisionCopy = ".low";  ///< in the low type of mixed precision
constexpr const char* kPrepared = ".prepared";     ///< by the entry `prepare`; has its own shape
constexpr const char* kMask = ".mask";             ///< u8, 0 where a weight is taken out
constexpr const char* kRange = ".range";           ///< f32 (2), of the input that a weight multiplies
constexpr const char* kBefore = ".before";         ///< the value before the step
constexpr const char* kShared = ".shared";         ///< the same, as all ranks had it
}  // namespace state_suffix

}  // namespace trainer
