// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/import/pruned_weight.h"
#include "core/import/remedies.h"
#include "core/import/torch_storages.h"
#include "core/storage/stored_type.h"

namespace trainer {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;

/// Gives the elements of `part`, the tensor's part of its storage, in the order of their indices.
void gather(const TorchTensor& tensor, std::span<const std::byte> part, const ByteSink& sink) {
  const auto width = static_cast<size_t>(element_bytes(tensor.stored.dtype));
  std::vector<std::byte> piece;
  piece.reserve(static_cast<size_t>(std::min(kPieceBytes, tensor.stored.end)));
  std::vector<int64_t> index(tensor.strides.size(), 0);
  int64_t place = 0;  // of the element in `part`, in elements
  for (int64_t left = tensor.stored.end / static_cast<int64_t>(width); left > 0; --left) {
    const std::byte* element = part.data() + static_cast<size_t>(place) * width;
    piece.insert(piece.end(), element, element + width);
    if (piece.size() + width > static_cast<size_t>(kPieceBytes)) {
      sink(piece);
      piece.clear();
    }
    for (size_t i = index.size(); i > 0; --i) {
      place += tensor.strides[i - 1];
      if (++index[i - 1] < tensor.stored.shape[i - 1]) break;
      place -= tensor.strides[i - 1] * tensor.stored.shape[i - 1];
      index[i - 1] = 0;
    }
  }
  sink(piece);
}

class TorchWeights final : public ForeignWeights {
 public:
  TorchWeights(const std::filesystem::path& path, TorchState state, std::unique_ptr<TorchStorages> storages)
      : path_(one_line(path.string())), placed_(std::move(state.tensors)), storages_(std::move(storages)) {
    for (const TorchTensor& tensor : placed_) tensors_.push_back(tensor.stored);
    remarks_ = std::move(state.remarks);
  }

  void copy(size_t index, const ByteSink& sink) override {
    const TorchTensor& tensor = placed_.at(index);
    if (tensor.mask == nullptr) return copy(tensor, sink);
    std::vector<std::byte> weight = whole(tensor);
    if (!apply_mask(weight, tensor.stored.dtype, whole(*tensor.mask), tensor.mask->stored.dtype)) {
      throw Error(ExitCode::data, fmt::format("{}: mask '{}' has an element that is neither 0 nor 1; {}",
                                              path_, one_line(tensor.mask->stored.name), kRemovePruning));
    }
    sink(weight);
  }

 private:
  void copy(const TorchTensor& tensor, const ByteSink& sink) {
    const int64_t most = tensor.is_contiguous ? kPieceBytes : tensor.end - tensor.begin;
    std::vector<std::byte> bytes(static_cast<size_t>(std::min(most, tensor.end - tensor.begin)));
    for (int64_t at = tensor.begin; at < tensor.end; at += std::ssize(bytes)) {
      const auto piece =
          std::span(bytes).first(static_cast<size_t>(std::min(std::ssize(bytes), tensor.end - at)));
      storages_->read(tensor.key, at, piece);
      if (tensor.is_contiguous) {
        sink(piece);
      } else {
        gather(tensor, piece, sink);
      }
    }
  }

  std::vector<std::byte> whole(const TorchTensor& tensor) {
    std::vector<std::byte> all;
    all.reserve(static_cast<size_t>(tensor.stored.end));
    copy(tensor,
         [&](std::span<const std::byte> piece) { all.insert(all.end(), piece.begin(), piece.end()); });
    return all;
  }

  std::string path_;  ///< for messages
  std::vector<TorchTensor> placed_;
  std::unique_ptr<TorchStorages> storages_;
};

}  // namespace

std::unique_ptr<ForeignWeights> make_torch_weights(const std::filesystem::path& path, TorchState state,
                                                   std::unique_ptr<TorchStorages> storages) {
  const auto check = [&](const TorchTensor& tensor) {
    const int64_t bytes = storages->bytes(tensor.key);
    if (tensor.end <= bytes) return;
    throw Error(ExitCode::data,
                fmt::format("{}: tensor '{}' needs {} bytes of the storage '{}', found {}; {}",
                            one_line(path.string()), one_line(tensor.stored.name), tensor.end,
                            one_line(tensor.key), bytes, kCopyAgain));
  };
  for (const TorchTensor& tensor : state.tensors) {
    check(tensor);
    if (tensor.mask != nullptr) check(*tensor.mask);
  }
  return std::make_unique<TorchWeights>(path, std::move(state), std::move(storages));
}

}  // namespace trainer
