// SPDX-License-Identifier: Apache-2.0
#include "core/data/section.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <stdexcept>

#include "core/base/printable.h"
#include "core/data/formats.h"

namespace trainer {
namespace {

/// The name of training samples in each format of files.
std::string help_of_train() {
  std::string help = "training samples";
  const char* separator = "; ";
  for (const Registered<DataFormat>& row : data_formats()) {
    if (row.make()->reads_files()) help += separator + row.name + ": " + row.help;
  }
  return help;
}

/// Reports a component's keys with values other than its defaults.
void refuse_keys(Component& defaults, const Value& resolved, const std::string& reason,
                 const OriginOf& origin_of, Diagnostics& diagnostics) {
  Fields fields;
  defaults.declare(fields);
  for (const Value::Entry& entry : fields.resolved(Fields::Form::canonical).entries) {
    if (leaves(*resolved.find(entry.key)) != leaves(entry.value))
      diagnostics.error(origin_of("data." + entry.key), reason);
  }
}

/// Whether webdataset or TensorFlow would read this from a network: `pipe:…`, `s3://…`.
bool is_remote(const std::string& path) {
  const size_t scheme = path.find("://");
  const auto is_of_scheme = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  };
  return path.starts_with("pipe:") ||
         (scheme != std::string::npos && scheme > 0 &&
          std::all_of(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(scheme), is_of_scheme));
}

void refuse_remote(const std::string& key, const std::string& path, const OriginOf& origin_of,
                   Diagnostics& diagnostics) {
  if (!is_remote(path)) return;
  diagnostics.error(
      origin_of(key),
      fmt::format("must be a path of files, got '{}'; copy them to a disk first, with curl, rclone or "
                  "aws s3 sync, or mount the bucket, and name the files here",
                  one_line(path)));
}

}  // namespace

DataSection::DataSection() {
  for (const Registered<DataFormat>& row : data_formats()) {
    formats_.push_back(row.make());
    formats_.back()->chosen_as = row.name;
  }
}

void DataSection::declare(Fields& fields) {
  fields.add("format", &format, "format of the data").one_of(formats_that([](const DataFormat&) {
    return true;
  }));
  fields.add("train", &train, help_of_train()).left_to_samples();
  fields.add("val", &val, "validation samples, as train; null or empty: no validation").left_to_samples();
  fields
      .add("val_fraction", &val_fraction,
           "fraction of the training samples set aside for validation, chosen by run.seed; 0: none")
      .at_least(0)
      .below(1);
  fields
      .add(
          "exclude", &exclude,
          "a file that names samples to leave out, one on each line: `train NAME` or `val NAME`, the path "
          "of an image below its folder; of a table's row `FILE:LINE` or `COLUMN=TEXT`; in other formats the "
          "sample's number from 0; `trainer data check --write` writes it. "
          "With val_fraction all are of `train`, and the others stay on their side")
      .left_to_samples()
      .absent_as("null");
  fields
      .add("error_budget", &error_budget,
           "percent of a split's samples that may be unreadable; each is replaced by the next readable one")
      .at_least(0)
      .at_most(100)
      .does_not_affect_results();
  fields
      .add(
          "workers", &workers,
          "threads that load and augment samples; 0: the training thread does it; auto: one on a CPU, all of "
          "the rank's cores but one for a GPU, as far as affinity, a cgroup and Slurm allow")
      .at_least(0)
      .at_most(kMostWorkers)
      .does_not_affect_results();
  fields.add("prefetch", &prefetch, "batches to prepare in advance; at least workers + 1")
      .at_least(1)
      .at_most(1024)
      .does_not_affect_results();
  fields.add("drop_last", &drop_last,
             "true: drop an epoch's last samples if they do not fill a batch; false: start the next epoch "
             "with them");
  fields.component("shuffle", shuffle, shuffles(), "the order of training samples in an epoch")
      .absent_as("full");
  images.declare(fields);
  tokens.declare(fields);
  fields
      .add("split_by", &split_by,
           "with val_fraction or fold: a column of the table, or of the file of labels, such as a patient; "
           "samples with the same value are all for training or all for validation")
      .absent_as("null");
  for (const auto& each : formats_) each->declare(fields);
  fields
      .section("fold",
               "k-fold cross-validation: part `index` of `of` parts of the training samples is for "
               "validation, chosen by run.seed",
               [this](Fields& section) {
                 section.add("of", &folds, "number of parts; 0: no cross-validation")
                     .at_least(0)
                     .at_most(1000)
                     .absent_as("0");
                 section.add("index", &fold, "the part for validation, from 0").at_least(0).absent_as("0");
               })
      .absent_if_unset();
  // The hash of a run's directory depends on the order of the keys that affect results.
  fields.put_first({"format", "train", "token_type", "tokenizer", "end_of_text", "mask_documents", "val",
                    "val_fraction", "labels", "error_budget", "max_pixels", "workers", "prefetch",
                    "drop_last"});
}

void DataSection::settle_paths() {
  if (chosen_format().takes_lists()) {
    if (!train.empty()) train = resolve_list(train);
    if (val && !val->empty()) *val = resolve_list(*val);
  }
  for (const auto& each : formats_) each->settle(*this);
}

void DataSection::use_labels(const std::string& name) {
  for (const auto& each : formats_) each->use_labels(name);
}

const DataFormat& DataSection::chosen_format() const {
  const auto chosen =
      std::ranges::find_if(formats_, [&](const auto& each) { return each->chosen_as == format; });
  if (chosen == formats_.end()) throw std::logic_error("there is no data format '" + format + "'");
  return **chosen;
}

const RowKind& DataSection::rows(InputKind kind) const {
  switch (kind) {
    case InputKind::pixels:
      return images;
    case InputKind::tokens:
      return tokens;
    case InputKind::features:
      return features;
    case InputKind::text:
      return row_texts;
    case InputKind::series:
      return series;
  }
  throw std::logic_error("an unknown kind of rows");
}

void DataSection::check(InputKind kind, const Shape& shape, const Value& resolved, const OriginOf& origin_of,
                        Diagnostics& diagnostics) const {
  ImageKind no_images;
  TokenKind no_tokens;
  for (const auto& [other, its_kind] : {std::pair<RowKind*, InputKind>{&no_images, InputKind::pixels},
                                        std::pair<RowKind*, InputKind>{&no_tokens, InputKind::tokens}}) {
    if (its_kind == kind || (kind == InputKind::text && its_kind == InputKind::tokens)) continue;
    refuse_keys(*other, resolved,
                fmt::format("is for {}, and the samples are {}; remove it", other->name(), rows(kind).name()),
                origin_of, diagnostics);
  }
  if (exclude && exclude->empty())
    diagnostics.error(origin_of("data.exclude"), "must be the path of a file, got ''");
  const bool is_of_rows = kind == InputKind::features || kind == InputKind::text;
  const bool has_named_rows = is_of_rows && chosen_format().reads_files();
  if (exclude && kind != InputKind::pixels && !has_named_rows)
    diagnostics.error(origin_of("data.exclude"),
                      fmt::format("names images or rows of tables, and the samples are {}; remove it",
                                  kind == InputKind::features ? "made up" : rows(kind).name()));
  rows(kind).check(*this, shape, origin_of, diagnostics);
  if (shuffle->blocks().any() && images.sample_weights)
    diagnostics.error(
        origin_of("data.shuffle"),
        "blocks takes each sample once, and data.sample_weights draws samples by weight; remove one of "
        "the two");
  if (!chosen_format().reads_files()) return;  // made-up samples may replace those of any format
  if (train.empty()) diagnostics.error(origin_of("data.train"), "required by data.format " + format);
  refuse_remote("data.train", train.written, origin_of, diagnostics);
  if (val) refuse_remote("data.val", val->written, origin_of, diagnostics);
  chosen_format().check(kind, origin_of, diagnostics);
  for (const Registered<DataFormat>& row : data_formats()) {
    const std::unique_ptr<DataFormat> each = row.make();
    if (row.name == format || !each->reads_files()) continue;
    refuse_keys(*each, resolved, fmt::format("is for data.format {} only, got {}", row.name, format),
                origin_of, diagnostics);
  }
}

}  // namespace trainer
