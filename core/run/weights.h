// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/engine/executable.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// The tensors of a trained network: parameters and running statistics, without their averages.
bool is_weight(const Tensor& tensor);

/// The metadata of a file of weights, `about` included.
StoredMetadata weights_metadata(const StoredMetadata& about);
/// Writes every parameter and running statistic in its canonical layout, under its name. `about` joins the
/// metadata. Throws Error (exit 70), and writes nothing, if one is not finite.
void save_weights(const Executable& executable, const std::filesystem::path& path,
                  const StoredMetadata& about = {});
/// The same with the average of each tensor that has one, under the same names.
void save_averages(const Executable& executable, const std::filesystem::path& path,
                   const StoredMetadata& about = {});
/// Sets every average to its tensor's present value.
void start_averages(Executable& executable);

/// Names that keep their first values whatever a file has for them, as patterns, and the place of these.
struct Replaced {
  std::vector<std::string> patterns;
  Origin origin;
};

/// Names of tensors by their source.
struct LoadedWeights {
  std::vector<std::string> loaded, replaced;  ///< of the network
  std::vector<std::string> left;              ///< of the file: the network has no such tensor
};

/// Gives every parameter and running statistic the file's value of the same name. If the file leaves out the
/// first part of all names, as "transformer.", the rest of the name counts. Throws Error (exit 65) naming all
/// tensors that are missing, do not fit or are left over, or (exit 78) a pattern that matches nothing;
/// nothing is changed then.
LoadedWeights load_weights(Executable& executable, const std::filesystem::path& path,
                           const Replaced& replaced = {});
/// The same for their averages, once the weights are there. A tensor that the file lacks has not been
/// trained: its average is its value.
void load_averages(Executable& executable, const std::filesystem::path& path);

}  // namespace trainer
