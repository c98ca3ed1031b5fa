// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"
#include "core/base/shape.h"
#include "core/storage/atomic_file.h"

namespace trainer {

/// One tensor of a safetensors file, as its header records it. dtype is the format's own name ("F32",
/// "BF16"), and the shape of a scalar is empty. The bytes [begin, end) count from the start of the data.
struct StoredTensor {
  std::string name;
  std::string dtype = "F32";
  Shape shape;
  int64_t begin = 0, end = 0;
};

/// Ends the name of the scales of a tensor of 8 bits.
constexpr std::string_view kScaleSuffix = "_scale";

using StoredMetadata = std::map<std::string, std::string>;

/// Gives the bytes of one tensor (little-endian, row-major) in any number of pieces.
using TensorProducer = std::function<void(size_t index, const ByteSink& sink)>;

/// Gives a whole file with these tensors in the order given; `begin` and `end` are not read. Throws Error,
/// and passes on whatever `sink` and `produce` throw.
void compose_safetensors(const std::vector<StoredTensor>& tensors, const StoredMetadata& metadata,
                         const TensorProducer& produce, const ByteSink& sink);
/// The same into a file, atomically.
void write_safetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors,
                       const StoredMetadata& metadata, const TensorProducer& produce);

/// A safetensors file, opened and wholly checked against the format. Throws Error: exit 65 naming file and
/// tensor if it breaks the format, 74 if it cannot be read. Holds no tensor's data.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  /// In the order of their data.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;
  const StoredMetadata& metadata() const { return metadata_; }
  /// Whether a tensor has the scales of another one, of 8 bits.
  bool is_scale(const StoredTensor& tensor) const;

  /// The values of one of tensors(); F16, BF16 and F64 are converted. So are weights of 8 bits: I8 (O, ...)
  /// with scales F32 (O) in the tensor of the same name and kScaleSuffix, value = scale[o] * integer. Throws
  /// Error (exit 65) for other dtypes, and for scales that are not above 0 and finite.
  std::vector<float> read_floats(const StoredTensor& tensor) const;
  /// The bytes of one of tensors() as they are stored; `bytes` has exactly their number.
  void read_bytes(const StoredTensor& tensor, std::span<std::byte> bytes) const;
  /// The same in pieces, for tensors of any size.
  void copy_bytes(const StoredTensor& tensor, const ByteSink& sink) const;

 private:
  std::vector<float> read_scales(const StoredTensor& integers) const;

  std::filesystem::path path_;
  FileDescriptor file_;
  int64_t data_start_ = 0;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, size_t, std::less<>> places_;  ///< of tensors_, by name
  StoredMetadata metadata_;
};

}  // namespace trainer
