// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/engine/executable.h"

namespace trainer {

/// The scalar outputs of an entry's runs, read asynchronously: asked for when a run is enqueued and taken
/// when it is done, so that neither host nor device waits.
class Outputs {
 public:
  /// For at most `depth` runs in flight.
  Outputs(Executable& executable, size_t entry, int64_t depth);

  /// Call after run(): requests its numbers. At most depth - 1 earlier runs may still be untaken.
  void ask();
  /// Waits for the oldest run asked for; the values hold until the next ask().
  const std::vector<double>& take();

  /// Names of the values, in their order: all outputs of one number.
  const std::vector<std::string>& names() const { return names_; }
  /// Position of a name.
  size_t index(const std::string& name) const;

 private:
  std::byte* place(int64_t run, size_t output) const;

  Executable& executable_;
  std::vector<std::string> names_;
  std::vector<TensorId> tensors_;
  std::vector<StoredType> types_;
  Buffer memory_;                  ///< depth rows of eight bytes for each number
  std::vector<int64_t> events_;    ///< of each row
  int64_t asked_ = 0, taken_ = 0;  ///< runs
  std::vector<double> values_;
};

}  // namespace trainer
