// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/storage/atomic_file.h"

namespace trainer {

/// The file of an offline run of W&B: a log as LevelDB writes it. Blocks of 32 KiB hold pieces of records,
/// each with its checksum, its length and its kind. Unlike LevelDB's the checksum is zlib's CRC of kind and
/// bytes.
class RecordLog {
 public:
  /// The sink outlives the log.
  explicit RecordLog(const ByteSink& sink);
  void add(std::string_view record);

 private:
  void write_piece(std::string_view piece, bool is_first, bool is_last);
  void write(const std::string& bytes);

  const ByteSink& sink_;
  size_t position_ = 0;
};

}  // namespace trainer
