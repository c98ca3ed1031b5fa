// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/executable.h"

namespace trainer {

/// The scalar outputs of an entry's runs, read asynchronously: requested when a run is enqueued and taken
/// when it is done, so that neither host nor device waits. Adjacent outputs on the device are read in
/// one copy.
class Outputs {
 public:
  /// For at most `depth` runs in flight. `list`: an output of whole numbers (n) that is read as well; empty,
  /// or not among the outputs: none.
  /// `arrays`: likewise outputs of any shape, of f32 or i32.
  Outputs(Executable& executable, size_t entry, int64_t depth, std::string_view list = {},
          const std::vector<std::string_view>& arrays = {});

  /// Call after run(): requests its numbers. At most depth - 1 earlier runs may still be untaken.
  void ask();
  /// Waits for the oldest requested run; the values are valid until the next ask().
  const std::vector<double>& take();

  /// The list of the run taken last, under the same rule; empty if none was requested.
  std::span<const int32_t> list() const { return list_; }

  /// The numbers of an array of the run taken last, in row-major order, under the same rule; empty if the
  /// entry has no such output.
  std::span<const float> array(std::string_view name) const;

  /// Names of the values, in their order: all outputs of one number.
  const std::vector<std::string>& names() const { return names_; }
  /// Position of a name.
  size_t index(const std::string& name) const;

 private:
  /// Bytes that are copied together, to `place` of a run's row.
  struct Range {
    TensorId first = kNone;
    int64_t bytes = 0, place = 0;
  };

  /// An output of any shape.
  struct Array {
    std::string name;
    StoredType type;
    int64_t place = 0;  ///< in a row
    std::vector<float> numbers;
  };

  void find_ranges();
  void add_array(const PlannedEntry& entry, std::string_view name);
  void take_array(Array& array) const;
  /// Adds a range after the others.
  void add_range(TensorId first, int64_t bytes);
  /// Of one run's outputs.
  int64_t row_bytes() const;
  std::byte* place(int64_t run, int64_t in_row) const;

  Executable& executable_;
  std::vector<std::string> names_;
  std::vector<TensorId> tensors_;
  std::vector<StoredType> types_;
  std::vector<Range> ranges_;    ///< of the numbers; then the list and the arrays
  std::vector<int64_t> places_;  ///< of the numbers, in a row
  int64_t list_bytes_ = 0;       ///< 0: there is none
  int64_t list_place_ = 0;       ///< in a row
  std::vector<Array> arrays_;
  Buffer memory_;                  ///< depth rows
  std::vector<int64_t> events_;    ///< of each row
  int64_t asked_ = 0, taken_ = 0;  ///< runs
  std::vector<double> values_;
  std::span<const int32_t> list_;
};

}  // namespace trainer
