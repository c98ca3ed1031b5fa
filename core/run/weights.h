// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/engine/executable.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// What a trained network consists of: parameters and running statistics, their averages left out.
bool is_weight(const Tensor& tensor);

/// The metadata of a file of weights, `about` included.
StoredMetadata weights_metadata(const StoredMetadata& about);
/// Writes every parameter and running statistic in its canonical layout, under its name. `about` joins the
/// metadata. Throws Error (exit 70), and writes nothing, if one is not finite.
void save_weights(const Executable& executable, const std::filesystem::path& path,
                  const StoredMetadata& about = {});
/// The same with the averages of what has one, under the same names.
void save_averages(const Executable& executable, const std::filesystem::path& path,
                   const StoredMetadata& about = {});
/// Lets every average begin at the value that its tensor has now.
void start_averages(Executable& executable);

/// Names that keep their first values whatever a file has under them, as patterns, and where they are given.
struct Replaced {
  std::vector<std::string> patterns;
  Origin origin;
};

/// Names of tensors by what has become of them.
struct LoadedWeights {
  std::vector<std::string> loaded, replaced;  ///< of the network
  std::vector<std::string> left;              ///< of the file: the network has no such tensor
};

/// Gives every parameter and running statistic the value that the file has under its name, or under what is
/// left of the name where the file leaves out the first part of all, as "transformer.". Throws Error (exit
/// 65) naming whatever is missing, does not fit or is left over, or (exit 78) a pattern that matches nothing;
/// nothing is changed then.
LoadedWeights load_weights(Executable& executable, const std::filesystem::path& path,
                           const Replaced& replaced = {});
/// The same of their averages, once the weights are there: what the file lacks has not been trained, and its
/// average is its value.
void load_averages(Executable& executable, const std::filesystem::path& path);

}  // namespace trainer
