// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace trainer {

/// The bytes of a file from the first to the last, straight into the caller's memory. gzip, known by its
/// first two bytes, is unpacked. Errors: exit 74 from the system, exit 65 if the gzip stream is damaged.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Reads `bytes` bytes, or fewer at the end. Returns how many.
  virtual int64_t read(void* into, int64_t bytes) = 0;
  virtual bool is_compressed() const = 0;
  /// A plain file's size; for gzip the most that a file of this size can unpack to.
  virtual int64_t most_bytes() const = 0;
};

std::unique_ptr<ByteStream> open_byte_stream(const std::string& path);

}  // namespace trainer
