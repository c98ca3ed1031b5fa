// SPDX-License-Identifier: Apache-2.0
#include "core/data/formats.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/data/images/cifar.h"
#include "core/data/images/idx.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/record.h"
#include "core/data/images/synthetic.h"
#include "core/data/subset.h"
#include "core/data/tolerant.h"

namespace trainer {
namespace {

int64_t synthetic_size(const DataSection& section, Split split) {
  return split == Split::train ? section.synthetic_train_samples : section.synthetic_val_samples;
}

SourceFormat idx_format() {
  return {"idx",
          true,
          std::nullopt,
          [](const DataSection& section, const SourceRequest& request) {
            return open_idx(section.path(request.split));
          },
          [](const DataSection& section, const SourceRequest& request) {
            return peek_idx(section.path(request.split));
          },
          [](const std::string& path, Split) { return missing_idx(path); }};
}

/// The split whose files hold the samples of another: with a fraction set aside, both are in training's.
Split stored_in(const DataSection& section, Split split) {
  return section.val_fraction > 0 ? Split::train : split;
}

SourceFormat cifar_format(const char* name, Cifar set) {
  return {name,
          true,
          kCifarShape,
          [set](const DataSection& section, const SourceRequest& request) {
            return open_cifar(set, section.path(request.split), stored_in(section, request.split));
          },
          [set](const DataSection& section, const SourceRequest& request) {
            return peek_cifar(set, section.path(request.split), stored_in(section, request.split));
          },
          [set](const std::string& path, Split split) { return missing_cifar(set, path, split); }};
}

ImageFolders image_folders(const DataSection& section, Split split) {
  const Split other = split == Split::train ? Split::val : Split::train;
  return {section.path(split), section.val_fraction > 0 ? "" : section.path(other), section.max_pixels};
}

SourceFormat image_folder_format() {
  return {"image_folder",
          true,
          kPictureShape,
          [](const DataSection& section, const SourceRequest& request) {
            return open_image_folder(image_folders(section, request.split));
          },
          [](const DataSection& section, const SourceRequest& request) {
            return peek_image_folder(image_folders(section, request.split));
          },
          [](const std::string& path, Split) { return missing_image_folder(path); },
          false,
          image_folder_classes};
}

std::vector<std::string> record_classes(const std::string& path) {
  return open_record(path, kMaxPixels)->class_names();
}

SourceFormat record_format() {
  return {"record",
          true,
          std::nullopt,
          [](const DataSection& section, const SourceRequest& request) {
            return open_record(section.path(request.split), section.max_pixels);
          },
          [](const DataSection& section, const SourceRequest& request) {
            return peek_record(section.path(request.split));
          },
          [](const std::string& path, Split) { return missing_record(path); },
          false,
          record_classes};
}

SourceFormat synthetic_format() {
  return {"synthetic",
          false,
          std::nullopt,
          [](const DataSection& section, const SourceRequest& request) {
            return make_synthetic(request.seed, request.split, synthetic_size(section, request.split),
                                  request.network_shape, request.network_classes);
          },
          [](const DataSection& section, const SourceRequest& request) {
            return SourceInfo{synthetic_size(section, request.split), request.network_shape,
                              request.network_classes, 0};
          },
          [](const std::string&, Split) { return std::vector<std::string>{}; },
          true};
}

}  // namespace

const std::vector<SourceFormat>& source_formats() {
  static const std::vector<SourceFormat> table = {idx_format(),
                                                  cifar_format("cifar10", Cifar::ten),
                                                  cifar_format("cifar100", Cifar::hundred),
                                                  image_folder_format(),
                                                  record_format(),
                                                  synthetic_format()};
  return table;
}

const SourceFormat& source_format(const DataSection& section) {
  const std::vector<SourceFormat>& table = source_formats();
  const auto row = std::find_if(table.begin(), table.end(),
                                [&](const SourceFormat& format) { return format.name == section.format; });
  if (row == table.end())
    throw Error(ExitCode::recipe, "data.format: unknown format '" + section.format + "'");
  return *row;
}

std::vector<std::string> formats_with_label_maps() {
  std::vector<std::string> names;
  for (const SourceFormat& row : source_formats()) {
    if (row.gives_label_maps) names.push_back(row.name);
  }
  return names;
}

bool has_split(const DataSection& section, Split split) {
  return !source_format(section).reads_files || !section.path(split).empty();
}

Shape expected_shape(const DataSection& section, const Shape& network_shape) {
  return source_format(section).shape.value_or(network_shape);
}

std::unique_ptr<DataSource> open_stored(const DataSection& section, const SourceRequest& request) {
  std::unique_ptr<DataSource> source = source_format(section).open(section, request);
  if (section.val_fraction == 0) return source;
  return take_split(std::move(source), request.split, section.val_fraction, request.seed);
}

std::unique_ptr<DataSource> open_source(const DataSection& section, const SourceRequest& request) {
  std::unique_ptr<DataSource> source = open_stored(section, request);
  source->check_labels(request.network_classes);
  const ErrorBudget budget{.percent = section.error_budget,
                           .split = request.split == Split::train ? "data.train" : "data.val",
                           .list_file = request.unreadable_list};
  return tolerate_unreadable(std::move(source), budget);
}

std::optional<SourceInfo> peek_source(const DataSection& section, const SourceRequest& request) {
  std::optional<SourceInfo> info = source_format(section).peek(section, request);
  if (info && section.val_fraction > 0) {
    const int64_t of_validation = validation_count(info->size, section.val_fraction);
    info->size = request.split == Split::val ? of_validation : info->size - of_validation;
    info->resident_bytes += info->size * static_cast<int64_t>(sizeof(int64_t));
  }
  return info;
}

std::vector<std::string> missing_files(const DataSection& section, std::optional<Split> only) {
  std::vector<std::string> missing;
  for (Split split : {Split::train, Split::val}) {
    if (!has_split(section, split) || split != only.value_or(split)) continue;
    const Split stored = stored_in(section, split);
    if (!only && stored != split) continue;  // its files have been looked for
    for (const std::string& file : source_format(section).missing(section.path(split), stored))
      missing.push_back(file);
  }
  return missing;
}

std::vector<std::string> known_class_names(const DataSection& section) {
  const SourceFormat& format = source_format(section);
  if (!format.class_names) return {};
  for (Split split : {Split::train, Split::val}) {
    const std::string& path = section.path(split);
    if (!path.empty() && format.missing(path, split).empty()) return format.class_names(path);
  }
  return {};
}

}  // namespace trainer
