// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/engine/executable.h"

namespace trainer {

/// What a trained network consists of: parameters and running statistics, their averages left out.
bool is_weight(const Tensor& tensor);

/// Writes every parameter and running statistic in its canonical layout, under its name.
void save_weights(const Executable& executable, const std::filesystem::path& path);
/// The same with the averages of what has one, under the same names.
void save_averages(const Executable& executable, const std::filesystem::path& path);
/// Lets every average begin at the value that its tensor has now.
void start_averages(Executable& executable);

/// Names that keep their first values whatever a file has under them, as patterns, and where they are given.
struct Replaced {
  std::vector<std::string> patterns;
  Origin origin;
};

/// Gives every parameter and running statistic the value that the file has under its name. Throws Error (exit
/// 65) naming whatever is missing, does not fit or is left over, or (exit 78) a pattern that matches nothing;
/// nothing is changed then.
void load_weights(Executable& executable, const std::filesystem::path& path, const Replaced& replaced = {});
/// The same of their averages, once the weights are there: what the file lacks has not been trained, and its
/// average is its value.
void load_averages(Executable& executable, const std::filesystem::path& path);

}  // namespace trainer
