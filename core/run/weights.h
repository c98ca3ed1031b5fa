// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/engine/state_image.h"
#include "core/run/weight_fit.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// The tensors of a trained network: parameters and running statistics, without averages, and without the
/// ranges of compression.quantize.
bool is_weight(const Tensor& tensor);

/// The metadata of a file of weights, `about` included.
StoredMetadata weights_metadata(const StoredMetadata& about);
/// Sets every average to its tensor's present value.
void start_averages(Executable& executable);

/// Names of tensors by their source.
struct LoadedWeights {
  std::vector<std::string> loaded, replaced;  ///< of the network
  std::vector<std::string> left;              ///< of the file: the network has no such tensor
  std::vector<std::string> prefixes;          ///< that had to be removed from names of the file
};

/// Throws Error (exit 65) if the file's tensors do not fit a network that has these, as load_weights does.
void check_weights(std::span<const Tensor> tensors, const std::filesystem::path& path,
                   const Replaced& replaced = {});

/// Gives every parameter and running statistic the file's value of the same name (core/run/weight_names.h).
/// Throws Error (exit 65) with the tensors that are missing, have another shape or are left over, or (exit
/// 78) a pattern that matches nothing; nothing is changed then. `others` hold parts of divided tensors.
LoadedWeights load_weights(Executable& executable, const std::filesystem::path& path,
                           const Replaced& replaced = {}, OtherImages* others = nullptr);
/// Gives each constant called `prefix` + NAME the file's value of the weight NAME of a network with these
/// tensors; the program may lack some of them. Throws Error (exit 65) if the file does not fit that network.
void load_constants(Executable& executable, std::span<const Tensor> network, const std::string& prefix,
                    const std::filesystem::path& path, const TiedNames& tied = {});

/// "removed 'module.' from names in the file"; empty if nothing was.
std::string prefix_remark(const LoadedWeights& loaded);

/// The files of a network that is only run forward.
struct TrainedWeights {
  std::filesystem::path model;
  std::filesystem::path averages;  ///< empty: there are none
  TiedNames tied;                  ///< of the network
};
/// The same as load_weights for such a network, and runs its entry `prepare`, during which tensors are read
/// that no other entry needs. Also loads averages. A tensor that their file lacks has not been trained: its
/// average is its value.
LoadedWeights load_trained(Executable& executable, const TrainedWeights& from);

/// Bytes of the host that loading takes while it lasts: the largest tensor, as it is read and as it is
/// stored.
int64_t loading_bytes(const Plan& plan);

}  // namespace trainer
