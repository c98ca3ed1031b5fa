// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/base/shape.h"
#include "core/data/fingerprint.h"
#include "core/data/skipped_files.h"

namespace trainer {

class RowReader;
struct RowRequest;

enum class Split { train, val };

/// A sample that cannot be read, and why.
struct UnreadableSample {
  std::string name;  ///< the path of its file
  std::string reason;
};

/// Thrown by a source in place of an unreadable sample; another one can replace it.
class UnreadableSampleError : public std::runtime_error {
 public:
  explicit UnreadableSampleError(UnreadableSample sample)
      : std::runtime_error(sample.name + ": " + sample.reason), sample_(std::move(sample)) {}
  const UnreadableSample& sample() const { return sample_; }

 private:
  UnreadableSample sample_;
};

/// Sizes below zero differ from sample to sample: -n means n or more.
inline bool is_fixed(const Shape& shape) {
  for (int64_t size : shape) {
    if (size < 0) return false;
  }
  return true;
}

/// Classes of samples that may each have any number of them.
struct SampleLabelSets {
  std::vector<int32_t> classes;  ///< of all samples, one after another
  std::vector<size_t> ends;      ///< of each sample's part

  void add(std::span<const int32_t> set) {
    classes.insert(classes.end(), set.begin(), set.end());
    ends.push_back(classes.size());
  }
  size_t size() const { return ends.size(); }
  std::span<const int32_t> operator[](size_t sample) const {
    const size_t begin = sample == 0 ? 0 : ends[sample - 1];
    return std::span(classes).subspan(begin, ends[sample] - begin);
  }
};

/// The spread of targets that are numbers, for metrics.
struct TargetSpread {
  double deviation = 1;  ///< of the only target, in training; 1 if there are several
  double squares = 0;    ///< sum over samples of the squared differences from the mean, in deviations
};

/// Facts about a source, known before its samples are loaded.
struct SourceInfo {
  int64_t size = 0;                ///< samples
  Shape shape;                     ///< of one sample; see is_fixed
  std::optional<int64_t> classes;  ///< unknown if only labels show it: a part of a set may lack the last ones
  int64_t resident_bytes = 0;      ///< host memory that the opened source will hold
  bool has_label_sets = false;     ///< a sample has any number of labels
  bool is_shared = false;          ///< that memory is both splits'
  std::optional<int64_t> least_classes =
      std::nullopt;  ///< that a network must distinguish, if it may have more
  std::optional<int64_t> label_bytes =
      std::nullopt;                               ///< of the text that all labels encode; see SourceRequest
  SkippedFiles skipped = {};                      ///< beside the samples
  std::vector<int32_t> labels = {}, groups = {};  ///< of all samples; see SourceRequest::wants_labels
  SampleLabelSets label_sets = {};                ///< in place of labels, before val_fraction
  int64_t token_ids = 0;                          ///< of the tokenizer, if samples are texts; see TextKind
  int64_t categories = 0, category_rows = 0;      ///< columns of them; rows of an embedding of all
  std::optional<TargetSpread> targets = std::nullopt;  ///< of numbers
  std::string summary, warning;  ///< a run's messages about its data at its start, or empty
};

/// The allowed labels: those below `classes`, and the one that the loss ignores, whatever it is.
struct AllowedLabels {
  int64_t classes;
  std::optional<int64_t> ignored = std::nullopt;

  bool holds(int64_t label) const { return label < classes || label == ignored; }
  /// The expectation, for an error.
  std::string text() const;
};

/// Samples by number. Everything here may be called from several threads at once.
class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual int64_t size() const = 0;
  virtual Shape sample_shape() const = 0;  ///< see is_fixed
  virtual int64_t classes() const = 0;     ///< the highest label plus one
  virtual int64_t resident_bytes() const = 0;
  /// Throws Error (exit 65) with file and offset of the first label that is not allowed.
  virtual void check_labels(const AllowedLabels& allowed) const = 0;
  /// Names of all classes; none if the format has none.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// What training samples taught about preparing rows, for weights to keep: text for
  /// DataFormat::use_preparation. Empty if rows need nothing.
  virtual std::string preparation() const { return ""; }
  /// Properties that identify these samples, without val_fraction; reads a few of them. Empty if the recipe
  /// alone determines them.
  virtual Fingerprint fingerprint() const { return {}; }
  /// How often training draws each sample, relative to the others; empty: each once in an epoch.
  virtual std::span<const double> sample_weights() const { return {}; }
  /// The path of a sample's own file; empty if it has none.
  virtual std::string sample_file(int64_t /*index*/) const { return ""; }
  /// The samples found unreadable since the last call, each once in a source's life.
  virtual std::vector<UnreadableSample> take_unreadable() const { return {}; }
  /// The numbers of all samples found unreadable so far, ascending.
  virtual std::vector<int64_t> unreadable() const { return {}; }
  /// Counts these as found before, in an earlier part of the run or by another of its processes. Throws Error
  /// (exit 65) if they are more than the budget.
  virtual void count_unreadable(const std::vector<int64_t>& /*samples*/) {}
  /// The reader that fills the rows of batches from these samples. The source and the request's section must
  /// outlive it. Throws Error (exit 78) if the samples do not fit the network's input.
  virtual std::unique_ptr<RowReader> rows(const RowRequest& request) const = 0;
};

}  // namespace trainer
