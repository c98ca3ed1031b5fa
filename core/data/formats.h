// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/format.h"
#include "core/data/section.h"

/// The table of data formats: one line for each, a function in its own file that returns its row. A row's
/// help says what data.train names.
// clang-format off
#define TRAINER_DATA_FORMATS(row) \
  row(idx_format) \
  row(cifar10_format) \
  row(cifar100_format) \
  row(image_folder_format) \
  row(record_format) \
  row(webdataset_format) \
  row(tfrecord_format) \
  row(token_shards_format) \
  row(text_format) \
  row(table_format) \
  row(synthetic_format)
// clang-format on

namespace trainer {

#define TRAINER_DECLARE_ROW(function) Registered<DataFormat> function();
TRAINER_DATA_FORMATS(TRAINER_DECLARE_ROW)
#undef TRAINER_DECLARE_ROW

const Registry<DataFormat>& data_formats();

/// Names of the formats with a property.
std::vector<std::string> formats_that(const std::function<bool(const DataFormat&)>& property);

/// False for a split that the recipe leaves out.
bool has_split(const DataSection& section, Split split);

/// The split whose files store the samples of another: if training's are divided, those of training.
Split stored_in(const DataSection& section, Split split);

/// Loads a split's samples as they are stored, whatever the network.
std::unique_ptr<DataSource> open_stored(const DataSection& section, const SourceRequest& request);

/// Loads a split's samples and checks their labels. A bad file throws Error (exit 65), a missing one exit 78.
/// Samples that cannot be read later are replaced, within data.error_budget.
std::unique_ptr<DataSource> open_source(const DataSection& section, const SourceRequest& request);

/// Size and shape without loading; nullopt if files are missing. Bad headers throw Error (exit 65).
std::optional<SourceInfo> peek_source(const DataSection& section, const SourceRequest& request);

/// Every missing file that the section, or one split of it, needs.
std::vector<std::string> missing_files(const DataSection& section, std::optional<Split> only = std::nullopt);

/// The files that hold the section's samples, if they are there; not those of single samples.
std::vector<std::string> sample_files(const DataSection& section);

/// Names of the classes as far as the section's files have them; none if they are missing.
std::vector<std::string> known_class_names(const DataSection& section);

}  // namespace trainer
