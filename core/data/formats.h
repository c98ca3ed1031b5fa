// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/error_budget.h"
#include "core/data/section.h"
#include "core/data/source.h"
#include "core/graph/names.h"

namespace trainer {

/// Which samples are wanted, and what is known of them from the network.
struct SourceRequest {
  Split split = Split::train;
  Shape network_shape;                                  ///< one sample as the network takes it
  int64_t network_classes = 0;                          ///< 0: the network has no use for labels
  std::optional<int64_t> ignored_label = std::nullopt;  ///< that the loss leaves out
  bool wants_label_sets = false;                        ///< made-up samples then have them
  uint64_t seed = 0;                                    ///< of the run
  std::string unreadable_list;  ///< the file that will name unreadable samples, for messages
  bool shares_budget = false;   ///< see ErrorBudget::is_shared
  bool counts_bytes = false;    ///< SourceInfo::label_bytes is wanted, which reads all samples
};

/// Where a key of the recipe stands.
using OriginOf = std::function<Origin(const std::string& key)>;

/// A row of the table of formats.
struct SourceFormat {
  std::string name;                    ///< two rows of one name differ in kind
  InputKind kind = InputKind::pixels;  ///< of its samples
  bool reads_files = true;
  bool gives_label_maps = false;
  bool takes_lists = false;  ///< of files, separated by commas
  /// Whether there may be several labels for each image (see SourceInfo); absent: there never are.
  std::function<bool(const DataSection&)> gives_label_sets;
  /// Whether the text's bytes can be counted; absent: its samples are no text.
  std::function<bool(const DataSection&)> counts_bytes;
  /// Opens a split's samples as they are stored. With a budget, samples that cannot be read later are
  /// replaced within it.
  std::function<std::unique_ptr<DataSource>(const DataSection&, const SourceRequest&, const ErrorBudget*)>
      open;
  /// Of the split's samples; nothing where files are missing.
  std::function<std::optional<SourceInfo>(const DataSection&, const SourceRequest&)> peek;
  std::function<std::vector<std::string>(const std::string& path, Split split)> missing;
  /// The files of a split that hold its samples; absent where each sample has one of its own.
  std::function<std::vector<std::string>(const std::string& path, Split split)> files;
  /// Of the classes of what is stored at a path; absent where a format has no names.
  std::function<std::vector<std::string>(const DataSection&, const std::string& path)> class_names;
  /// Reports what the recipe alone tells of samples that do not become what the network takes.
  std::function<void(const DataSection&, const Shape& network_shape, const OriginOf&, Diagnostics&)> check;
};
const std::vector<SourceFormat>& source_formats();

/// The row that the section names, of what the network reads where there is one.
const SourceFormat& source_format(const DataSection& section);

/// Names of the formats whose sources give a label for every pixel.
std::vector<std::string> formats_with_label_maps();

/// Whether the section's format may give several labels for each image.
bool may_give_label_sets(const DataSection& section);

/// False for a split that the recipe leaves out.
bool has_split(const DataSection& section, Split split);

/// The split whose files hold the samples of another: with a fraction set aside, both are in training's.
Split stored_in(const DataSection& section, Split split);

/// Loads a split's samples as they are stored, whatever the network.
std::unique_ptr<DataSource> open_stored(const DataSection& section, const SourceRequest& request);

/// Loads a split's samples and checks their labels. A bad file throws Error (exit 65), a missing one exit 78.
/// Samples that cannot be read later are replaced, within data.error_budget.
std::unique_ptr<DataSource> open_source(const DataSection& section, const SourceRequest& request);

/// Size and shape without loading; nullopt where files are missing. Bad headers throw Error (exit 65).
std::optional<SourceInfo> peek_source(const DataSection& section, const SourceRequest& request);

/// Every file that the section, or one split of it, needs and that is not there.
std::vector<std::string> missing_files(const DataSection& section, std::optional<Split> only = std::nullopt);

/// The files that hold the section's samples, where they are there; not those of single samples.
std::vector<std::string> sample_files(const DataSection& section);

/// Names of the classes as far as the section's files have them: none where they are missing.
std::vector<std::string> known_class_names(const DataSection& section);

}  // namespace trainer
