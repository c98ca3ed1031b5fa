// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/engine/state_image.h"
#include "core/storage/checkpoint.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// Adds the files of an image's tensors: the network's under the usual names of a trained network, their
/// averages under the same names, and all others that change from step to step. `about` joins the metadata,
/// and so do the ranges of compression.quantize (core/quantization/int8_network.h). Throws Error (exit 70) if
/// a weight or an average is not finite.
void add_tensors(CheckpointWriter& writer, const Plan& plan, StateImage& image,
                 const StoredMetadata& about = {});

/// Whether a checkpoint belongs to a run with the same guards. If not, windows start empty and the steps to
/// skip come from the recipe; only the count of skipped steps is kept.
enum class Guards { same, other };

/// Fills the image from a checkpoint with verified files. Throws Error (exit 65) naming each tensor that is
/// missing, left over or of another type or shape; the image is then unusable.
void read_tensors(const std::filesystem::path& checkpoint, const Plan& plan, StateImage& image,
                  Guards guards = Guards::same);

/// Sets the executable's tensors to those of a checkpoint with verified files, by way of its image.
void load_checkpoint(Executable& executable, StateImage& image, const std::filesystem::path& checkpoint,
                     Guards guards = Guards::same);
/// The same with an image of its own; `others` hold parts of divided tensors.
void load_checkpoint(Executable& executable, const std::filesystem::path& checkpoint,
                     Guards guards = Guards::same, OtherImages* others = nullptr);

}  // namespace trainer
