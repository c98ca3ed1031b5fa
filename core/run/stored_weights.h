// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/graph/program.h"
#include "core/run/weight_names.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// The weights of a network in a file, which are read tensor by tensor, by the network's names.
class StoredWeights {
 public:
  /// Throws Error (exit 65) if they do not fit the program's network.
  StoredWeights(Program program, const TiedNames& tied, const std::filesystem::path& path);

  std::vector<float> read(const std::string& name) const;
  /// Gives the bytes of f32 values.
  void copy(const std::string& name, const ByteSink& sink) const;

  const StoredMetadata& metadata() const { return file_.metadata(); }
  /// "removed 'module.' from names in the file"; empty if nothing was.
  std::string prefix_remark() const;

 private:
  Program program_;
  SafetensorsFile file_;
  WeightNames names_;
};

}  // namespace trainer
