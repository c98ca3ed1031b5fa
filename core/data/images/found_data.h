// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace trainer {

/// Values of data.format, data.train, data.val and data.labels for the data at a path.
struct FoundData {
  std::string format;
  std::filesystem::path train, val;                  ///< `val` is empty if the path holds one split only
  std::filesystem::path masks = {}, val_masks = {};  ///< folders of data.masks; empty: no masks, or the same
  std::filesystem::path class_names = {};            ///< of masks: a file, if there is one
  bool are_photographs = false;  ///< of 32x32 pixels, so that crops and mirrored ones are of their class
  std::string labels = "";       ///< the name of a table in `train`; empty: there is none
  bool is_unlabelled = false;    ///< images alone, for an autoencoder
  std::string note = "";         ///< for the user, or empty
};

/// Recognises images with masks (below `images` and `masks`, each perhaps with `train` and `val`; names of
/// the classes in classes.txt), images in a folder for each class (also below `train` and `val`), with a
/// table of labels, or alone; CIFAR's and MNIST's files, and a record file. A function for each kind: see
/// kFinders. Throws Error (exit 65) with the expected kinds if it is none of them.
FoundData find_data(const std::filesystem::path& path);

}  // namespace trainer
