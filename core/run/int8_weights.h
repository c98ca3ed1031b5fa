// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "core/config/file_path.h"
#include "core/quantization/int8_network.h"
#include "core/run/weight_names.h"
#include "core/storage/safetensors.h"

namespace trainer {

/// What a file of weights says about products in 8 bits; null: they are computed in f32. Throws Error (exit
/// 65) if that is damaged.
std::shared_ptr<const Int8Network> int8_network_in(const std::filesystem::path& weights);

/// The same of the file that run.resume names; null if it names none.
std::shared_ptr<const Int8Network> int8_network_named(const std::optional<FilePath>& resume);
/// The ranges that training found for it; nothing: it did not round. Throws Error (exit 65) if they are
/// damaged.
std::optional<InputRanges> trained_ranges_in(const std::filesystem::path& weights);

/// Throws Error (exit 65) for weights of 8 bits, which training cannot start from.
void require_trainable(const std::filesystem::path& weights);

/// The weights of a file as another one: those of products in 8 bits as I8 with their scales, the others as
/// F32, all under the network's names. If scales are of whole tensors or powers of two, all are F32.
class Int8Weights {
 public:
  /// Throws Error (exit 65) if the file does not fit a network with these tensors. `tensors` must outlive it.
  Int8Weights(std::span<const Tensor> tensors, const std::filesystem::path& path, const TiedNames& tied,
              Int8Network network);

  /// Gives the whole new file. Throws Error (exit 65) if a weight is infinite or NaN.
  void compose(const ByteSink& sink) const;
  int64_t bytes() const;

 private:
  struct Item {
    StoredTensor made;
    const StoredTensor* source;
    bool is_scale = false;
  };
  void produce(const Item& item, const ByteSink& sink) const;

  SafetensorsFile file_;
  Int8Network network_;
  std::vector<Item> items_;
};

}  // namespace trainer
