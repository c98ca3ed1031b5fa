// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/import/pickle.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// A storage as a pickle refers to it. A view (before PyTorch 0.4) is a part of the storage `key`.
struct TorchStorage {
  std::string key;
  std::string_view dtype;
  int64_t bytes = 0;
  int64_t view_begin = 0, view_bytes = 0;  ///< of the storage; all of it unless it is a view
};

/// A tensor in a storage. All numbers but the sizes are bytes.
struct TorchTensor {
  StoredTensor stored;         ///< begin and end are 0 and its bytes, as it is written
  std::string key;             ///< of its storage
  int64_t begin = 0, end = 0;  ///< the part of the storage that holds its elements
  std::vector<int64_t> strides;
  bool is_contiguous = true;                     ///< that part is the tensor itself
  std::shared_ptr<const TorchTensor> mask = {};  ///< of a pruned weight, of its shape
};

/// The storage of a `reference`. Throws Error (exit 65) with its position.
TorchStorage storage_of(const Pickle& pickle, const PickleValue& reference);

/// Whether a value is a tensor or a parameter.
bool is_tensor(const Pickle& pickle, const PickleValue& value);

/// That tensor, checked: no negative size, no overflow, no overlap, within the size that the pickle gives its
/// storage. Throws Error (exit 65) with its position.
TorchTensor tensor_of(const Pickle& pickle, const PickleValue& value, const std::string& name);

}  // namespace trainer
