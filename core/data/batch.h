// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/shape.h"

namespace trainer {

/// One array of a batch: the rows of one input of the program.
struct BatchInput {
  std::string name;  ///< see input_name
  DType dtype = DType::f32;
  Shape row;  ///< shape of one row; {}: a number
  bool operator==(const BatchInput&) const = default;
};
using BatchInputs = std::vector<BatchInput>;

/// Position of the input of that name; nothing if there is none.
std::optional<size_t> find_input(const BatchInputs& inputs, std::string_view name);

/// Bytes of a batch of `rows` rows.
int64_t batch_bytes(const BatchInputs& inputs, int64_t rows);

/// A micro-batch of N rows in one piece of memory: for each input, in their order, an array (N, row...) that
/// is aligned to 64 bytes.
class Batch {
 public:
  Batch() = default;
  /// Over batch_bytes(inputs, rows) of memory. Memory and inputs must outlive it.
  Batch(std::byte* memory, const BatchInputs& inputs, int64_t rows);

  void* array(size_t input) const { return arrays_[input]; }
  template <class T>
  T* row(size_t input, int64_t row) const {
    return reinterpret_cast<T*>(arrays_[input] + row * row_bytes_[input]);
  }
  /// The array of that name; null if the batch has none. T must be the input's type.
  template <class T>
  T* find(std::string_view name) const {
    const std::optional<size_t> input = find_input(*inputs_, name);
    return input ? row<T>(*input, 0) : nullptr;
  }
  /// Zeros in every array.
  void clear_row(int64_t row) const;

  int64_t step = 0;   ///< evaluation: number of the batch
  int64_t part = 0;   ///< training: number among the rank's micro-batches of the step
  int64_t first = 0;  ///< number of the first row within the global batch
  int64_t epoch = 0;  ///< of the first row
  int64_t real = 0;   ///< rows that are not padding; they come first

 private:
  const BatchInputs* inputs_ = nullptr;
  std::vector<std::byte*> arrays_;
  std::vector<int64_t> row_bytes_;
};

}  // namespace trainer
