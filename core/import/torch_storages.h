// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "core/import/foreign_weights.h"
#include "core/import/torch_state.h"

namespace trainer {

/// The storages of a file by torch.save.
class TorchStorages {
 public:
  virtual ~TorchStorages() = default;
  /// Bytes of a storage. Throws Error (exit 65) if there is none.
  virtual int64_t bytes(const std::string& key) = 0;
  /// Reads a part of it that is within its bytes. Throws Error: exit 65 if it is damaged, 74 if it cannot be
  /// read.
  virtual void read(const std::string& key, int64_t begin, std::span<std::byte> into) = 0;
};

/// Throws Error (exit 65), naming tensor and file, if a storage has fewer bytes than a tensor needs.
std::unique_ptr<ForeignWeights> make_torch_weights(const std::filesystem::path& path, TorchState state,
                                                   std::unique_ptr<TorchStorages> storages);

/// A zip archive by torch.save (torch/serialization.py, `_save`): `NAME/data.pkl`, `NAME/data/KEY`.
std::unique_ptr<ForeignWeights> open_torch_archive(const std::filesystem::path& path);

/// The form before PyTorch 1.6 (torch/serialization.py, `_legacy_save`): five pickles, then the storages,
/// each after its number of elements.
std::unique_ptr<ForeignWeights> open_legacy_torch_file(const std::filesystem::path& path);

}  // namespace trainer
