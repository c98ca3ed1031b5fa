// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/source.h"

namespace trainer {

/// The samples of a split before data.val_fraction.
struct StoredSamples {
  Split split = Split::train;
  int64_t size = 0;
  bool has_val_file = true;  ///< false: samples of validation are among those of training
  /// A sample's name, below the folder of all; null: samples have none, and are named by their numbers from
  /// 0.
  std::function<std::string(int64_t index)> name = nullptr;
  /// In place of names: the number of the sample that a line names, and what it expects.
  std::function<std::optional<int64_t>(std::string_view name)> find = nullptr;
  std::string expected = "";
};

/// The numbers, ascending, of the samples of a split that a file of data.exclude names: "train NAME" or
/// "val NAME" on each line; empty lines and those that begin with # do not count. Throws Error (exit 65) with
/// file and line if a line has another form, names a sample that this split lacks, or repeats one.
std::vector<int64_t> read_excluded(const std::string& path, const StoredSamples& samples);
/// The same of the file's text.
std::vector<int64_t> parse_excluded(std::string_view text, const std::string& path,
                                    const StoredSamples& samples);

/// A line of such a file. Throws Error (exit 65) for a name that no line can hold.
std::string exclude_line(Split split, const std::string& name);

/// `samples` of a split without those that the file of this path excludes; both ascending. Throws Error (exit
/// 65) if none is left.
std::vector<int64_t> left_of(const std::vector<int64_t>& samples, const std::vector<int64_t>& excluded,
                             const std::string& path, Split split);

/// Makes the fingerprint of `size` samples that of those without the excluded ones.
void leave_out(std::span<const int64_t> excluded, int64_t size, Fingerprint& fingerprint);

}  // namespace trainer
