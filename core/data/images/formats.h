// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/formats.h"
#include "core/data/images/source.h"

/// The table of formats of images: one line for each, a function that its own file defines and that returns
/// its row.
// clang-format off
#define TRAINER_IMAGE_FORMATS(row) \
  row(idx_format) \
  row(cifar10_format) \
  row(cifar100_format) \
  row(image_folder_format) \
  row(record_format) \
  row(synthetic_format)
// clang-format on

namespace trainer {

/// A format whose samples are images.
struct ImageFormat {
  std::string name;
  std::function<std::unique_ptr<ImageSource>(const DataSection&, const SourceRequest&)> open;
  std::function<std::optional<SourceInfo>(const DataSection&, const SourceRequest&)> peek;
  std::function<std::vector<std::string>(const std::string& path, Split split)> missing;
  /// See SourceFormat.
  std::function<std::vector<std::string>(const std::string& path, Split split)> files = nullptr;
  std::optional<Shape> shape = std::nullopt;  ///< of a sample, where no file need be read to know it
  /// See SourceFormat.
  std::function<std::vector<std::string>(const DataSection&, const std::string& path)> class_names = nullptr;
  bool reads_files = true, gives_label_maps = false;
  std::function<bool(const DataSection&)> gives_label_sets = nullptr;
  bool takes_lists = false;  ///< of files, separated by commas
};

#define TRAINER_DECLARE_ROW(function) ImageFormat function();
TRAINER_IMAGE_FORMATS(TRAINER_DECLARE_ROW)
#undef TRAINER_DECLARE_ROW

/// The table's rows as they stand among those of all formats.
std::vector<SourceFormat> image_formats();

}  // namespace trainer
