// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/graph/program.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// Which tensor of a file is which weight of a network. The file's names may have one of the prefixes
/// "module.", "model." and "_orig_mod." of PyTorch's wrappers, or lack the first part of all the network's
/// names, as "transformer.". A tied weight may have the name of either layer. Points into the file and the
/// tensors.
struct WeightNames {
  struct Copy {
    const StoredTensor *copy, *original;
  };

  std::map<std::string, const StoredTensor*> found;  ///< by the network's names
  std::vector<Copy> copies;                          ///< of tied weights that the file holds twice
  std::vector<const StoredTensor*> buffers;          ///< of PyTorch's modules: nothing here reads them
  std::vector<const StoredTensor*> unexpected;       ///< the network has no such tensor
  std::vector<std::string> prefixes;                 ///< those that had to be removed

  const StoredTensor* find(const std::string& name) const {
    const auto place = found.find(name);
    return place == found.end() ? nullptr : place->second;
  }
};

/// By the names that weights have in other layers which use them, their own.
using TiedNames = std::map<std::string, std::string>;

WeightNames match_names(std::span<const Tensor* const> weights, const TiedNames& tied,
                        const SafetensorsFile& file);

}  // namespace trainer
