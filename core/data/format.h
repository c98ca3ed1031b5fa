// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/config/fields.h"
#include "core/data/error_budget.h"
#include "core/data/source.h"
#include "core/graph/names.h"

namespace trainer {

struct DataSection;

/// The samples to open, and the requirements of the network.
struct SourceRequest {
  Split split = Split::train;
  Shape network_shape;                                  ///< one sample as the network takes it
  int64_t network_classes = 0;                          ///< 0: the network has no use for labels
  std::optional<int64_t> ignored_label = std::nullopt;  ///< that the loss leaves out
  bool wants_label_sets = false;                        ///< made-up samples then have them
  bool wants_numbers = false;                           ///< as targets, in place of labels
  int64_t targets = 0;                                  ///< of these, for each sample
  bool stratifies = false;                              ///< data.val_fraction takes its share of each class
  bool wants_labels = false;                            ///< SourceInfo's labels are wanted, if it knows them
  uint64_t seed = 0;                                    ///< of the run
  std::string unreadable_list;                 ///< the file that will name unreadable samples, for messages
  bool shares_budget = false;                  ///< see ErrorBudget::is_shared
  bool counts_bytes = false;                   ///< SourceInfo::label_bytes is wanted, which reads all samples
  InputKind network_kind = InputKind::pixels;  ///< that the network reads
  int64_t threads = 1;                         ///< that may read files; samples do not depend on it
};

/// Files that hold several samples each.
struct NamedFiles {
  std::vector<std::string> paths;
  std::string id;  ///< a column whose texts name the samples, or empty
};

/// The place of a key of the recipe.
using OriginOf = std::function<Origin(const std::string& key)>;

/// Where samples come from: a format of files, or samples that are made up. It declares keys of `data` that
/// no other format has.
class DataFormat : public Component {
 public:
  void declare(Fields& /*fields*/) override {}

  /// Kinds of its rows. If there are several, the network chooses.
  virtual std::vector<InputKind> kinds() const = 0;
  bool gives(InputKind kind) const;
  virtual bool reads_files() const { return true; }
  /// Whether a path may be several, separated by commas.
  virtual bool takes_lists() const { return false; }
  /// Whether a tokenizer makes its tokens.
  virtual bool is_text() const { return false; }
  /// Whether each pixel has a label.
  virtual bool gives_label_maps() const { return reads_masks(); }
  /// Whether these labels are in files, with a byte for each pixel.
  virtual bool reads_masks() const { return false; }
  /// The folders of these files, if they have their own.
  virtual std::vector<std::string> mask_folders() const { return {}; }
  /// Whether an image may have several labels (see SourceInfo).
  virtual bool gives_label_sets() const { return false; }
  /// Whether samples may have groups by data.split_by, which no split divides.
  virtual bool takes_groups() const { return false; }
  /// Of a sample, if it is known without a file.
  virtual std::optional<Shape> shape() const { return std::nullopt; }

  /// Decides on paths that depend on those of the splits, once all keys are read.
  virtual void settle(const DataSection& /*section*/) {}
  /// Sets data.labels, if it has this key.
  virtual void use_labels(const std::string& /*name*/) {}
  /// From now on rows are prepared as for the training of these weights: DataSource::preparation.
  virtual void use_preparation(const std::string& /*stored*/) const {}
  /// Reports errors in its own keys, for a network that reads `kind`.
  virtual void check(InputKind /*kind*/, const OriginOf& /*origin_of*/, Diagnostics& /*diagnostics*/) const {}
  /// Whether samples have names of their own, the paths of their files.
  virtual bool names_samples() const { return false; }
  /// Opens a split's samples as they are stored; with data.val_fraction, images of both splits.
  virtual std::unique_ptr<DataSource> open(const DataSection& section,
                                           const SourceRequest& request) const = 0;
  /// Opens files that `trainer predict` names, of the form of data.train; only if rows are prepared as for
  /// weights.
  virtual std::unique_ptr<DataSource> open_named(const NamedFiles& files, const DataSection& section,
                                                 const SourceRequest& request) const;
  /// Properties of the result of open(), without loading; no file is missing.
  virtual SourceInfo peek(const DataSection& section, const SourceRequest& request) const = 0;
  /// The missing files of a split; by default the path itself.
  virtual std::vector<std::string> missing(const std::string& path, Split split) const;
  /// The files of a split that hold several samples, or their labels.
  virtual std::vector<std::string> files(const std::string& /*path*/, Split /*split*/) const { return {}; }
  /// Of the classes of the data at a path; none if the format has no names.
  virtual std::vector<std::string> class_names(const std::string& /*path*/) const { return {}; }
};

/// Common properties of rows of one kind, whatever their format. It declares keys of `data` that are about
/// such rows only.
class RowKind : public Component {
 public:
  virtual std::string name() const = 0;  ///< in the plural
  /// Reports errors of samples that do not fit the network's input, as far as the recipe alone shows them.
  virtual void check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
                     Diagnostics& diagnostics) const = 0;

  /// The requested split of samples that DataFormat::open gave. With a budget, samples that cannot be read
  /// later are replaced within it.
  virtual std::unique_ptr<DataSource> take_split(std::unique_ptr<DataSource> source,
                                                 const DataSection& /*section*/,
                                                 const SourceRequest& /*request*/,
                                                 const ErrorBudget* /*budget*/) const {
    return source;
  }
  virtual SourceInfo take_split(const SourceInfo& info, const DataSection& /*section*/,
                                const SourceRequest& /*request*/) const {
    return info;
  }
};

}  // namespace trainer
