// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/storage/safetensors.h"

namespace trainer {

/// The weights in a file of another program. Every tensor is checked when the file is opened; its data is
/// read when it is copied.
class ForeignWeights {
 public:
  virtual ~ForeignWeights() = default;

  /// `begin` is 0 and `end` the number of bytes.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// What was ignored or renamed, a sentence each.
  const std::vector<std::string>& remarks() const { return remarks_; }
  /// Gives the bytes of tensors()[index], row-major. Throws Error: exit 65 if the file is damaged, 74 if it
  /// cannot be read.
  virtual void copy(size_t index, const ByteSink& sink) = 0;

 protected:
  std::vector<StoredTensor> tensors_;
  std::vector<std::string> remarks_;
};

/// Opens a file by torch.save, in the form since PyTorch 1.6 or the one before, or an ONNX model. Throws
/// Error: exit 65 with place, finding and remedy if it is none or damaged, 74 if it cannot be read.
std::unique_ptr<ForeignWeights> open_foreign_weights(const std::filesystem::path& path);

}  // namespace trainer
