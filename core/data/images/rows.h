// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/images/mix.h"
#include "core/data/images/source.h"
#include "core/data/images/transform.h"
#include "core/data/row_reader.h"

namespace trainer {

/// Fills `images` (numbers, or bytes if the input is u8), `labels` (a number, or a map of the image's size)
/// or `targets` (1 for each class of an image). Fills `other_labels` and `mix_weights` if the inputs have
/// them. If they have `clean_images`, these get the images, and `images` the same ones with `corruption`;
/// without training its random numbers depend on the sample alone. Training augments and mixes by seed and
/// order; `training` is null for a pass in the stored order. Source and transforms must outlive it. Mixup
/// makes numbers, never bytes.
std::unique_ptr<RowReader> make_image_rows(const ImageSource& source, TransformChain chain,
                                           const BatchInputs& inputs,
                                           const TrainingBatches* training = nullptr, const Mix& mix = {},
                                           const TransformList* corruption = nullptr);

}  // namespace trainer
