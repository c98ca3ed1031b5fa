// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace trainer {

/// Values of data.format, data.train and data.val for the data at a path.
struct FoundData {
  std::string format;
  std::filesystem::path train, val;  ///< `val` is empty if the path holds one split only
  bool are_photographs = false;      ///< of 32x32 pixels, so that crops and mirrored ones are of their class
};

/// Recognises images in a folder for each class (also below `train` and `val`), CIFAR's and MNIST's files,
/// and a record file. Throws Error (exit 65) with the expected kinds if it is none of them.
FoundData find_data(const std::filesystem::path& path);

}  // namespace trainer
