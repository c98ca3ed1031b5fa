// SPDX-License-Identifier: Apache-2.0
#include "core/data/section.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/data/formats.h"
#include "core/data/images/transforms/table.h"
#include "core/data/tokens/texts.h"

namespace trainer {

DataSection::DataSection() : texts(std::make_shared<Texts>()) {}

void DataSection::declare(Fields& fields) {
  std::vector<std::string> names;
  for (const SourceFormat& row : source_formats()) {
    if (std::ranges::find(names, row.name) == names.end()) names.push_back(row.name);
  }
  fields.add("format", &format, "format of the data").one_of(names);
  fields
      .add("train", &train,
           "training samples; idx: PREFIX of PREFIX-images-idx3-ubyte[.gz] and -labels-idx1-ubyte[.gz]; "
           "cifar10, cifar100: the unpacked directory of the binary version, or files separated by commas; "
           "image_folder: a folder with a sub-folder of JPEG, PNG, WebP and BMP files for each class; "
           "record: a file made by `trainer data pack`; tokens: shards of tokens, text: text files, each a "
           "path in which * matches "
           "any text and ? one character")
      .left_to_samples();
  fields
      .add(
          "token_type", &token_type,
          "integer type of the token ids in shards (format tokens); shards of llm.c state it in their header")
      .one_of({"uint16", "uint32"});
  fields
      .add("tokenizer", &tokenizer,
           "tokenizer for format text: bytes (the default), tokenizer.json, vocab.json beside merges.txt, a "
           "SentencePiece model, or a folder with one of these; for shards, the tokenizer that made them")
      .path_where([](const std::string& text) { return text != kBytesTokenizer; })
      .left_to_samples();
  fields
      .add("end_of_text", &end_of_text,
           "token that ends a document; null: the tokenizer's own, <|endoftext|> or </s>")
      .at_least(0)
      .at_most(2147483646);
  fields.add(
      "mask_documents", &mask_documents,
      "true: attention and positions restart after each end_of_text; false: windows continue across it");
  fields.add("val", &val, "validation samples, as train; null or empty: no validation").left_to_samples();
  fields
      .add("val_fraction", &val_fraction,
           "fraction of the training samples set aside for validation, chosen by run.seed; 0: none")
      .at_least(0)
      .below(1);
  fields.add(
      "labels", &labels,
      "of format image_folder: name of a CSV file in each of train and val. Its header is file,label or, for "
      "several labels, file and each class, with 0 or 1 below. null: each sub-folder is a class");
  fields
      .add("error_budget", &error_budget,
           "percent of a split's samples that may be unreadable; each is replaced by the next readable one")
      .at_least(0)
      .at_most(100)
      .keeps_mathematics();
  fields.add("max_pixels", &max_pixels, "images with more pixels than this are treated as unreadable")
      .at_least(1);
  fields.add("workers", &workers, "threads that load and augment samples; 0: the training thread does it")
      .at_least(0)
      .at_most(64)
      .keeps_mathematics();
  fields.add("prefetch", &prefetch, "batches to prepare in advance; at least workers + 1")
      .at_least(1)
      .at_most(1024)
      .keeps_mathematics();
  fields.add("drop_last", &drop_last,
             "true: drop an epoch's last samples if they do not fill a batch; false: start the next epoch "
             "with them");
  fields
      .add("cache", &cache,
           "device: keep all samples in GPU memory and augment them there; none: workers send batches")
      .one_of({"none", "device"})
      .keeps_mathematics();
  fields.components("augment", augment, transforms(), "transforms of training samples, in order");
  fields.components("eval_transform", eval_transform, transforms(),
                    "transforms of validation samples, in order");
  fields.section("mix", "mixes training samples and their labels within a batch",
                 [this](Fields& section) { mix.declare(section); });
  fields.section("synthetic", "sizes of the generated sets of format synthetic", [this](Fields& section) {
    section.add("train_samples", &synthetic_train_samples, "training samples")
        .at_least(1)
        .at_most(2147483647);
    section.add("val_samples", &synthetic_val_samples, "validation samples").at_least(1).at_most(2147483647);
  });
}

void DataSection::resolve_lists() {
  if (!source_format(*this).takes_lists) return;
  if (!train.empty()) train = resolve_list(train);
  if (val && !val->empty()) *val = resolve_list(*val);
}

void DataSection::check_labels(const Origin& origin, Diagnostics& diagnostics) const {
  if (!labels) return;
  const Origin key{origin.where, origin.path + ".labels"};
  if (format != "image_folder") {
    diagnostics.error(key, "is for data.format image_folder only, got " + format);
  } else if (labels->empty() || labels->front() == '/') {
    diagnostics.error(
        key, fmt::format("must be the name of a CSV file in data.train's folder, got '{}'", *labels));
  }
}

void DataSection::check(const Origin& origin, Diagnostics& diagnostics) const {
  // An unknown format has been reported where it was read.
  for (const SourceFormat& row : source_formats()) {
    if (row.name != format || !row.reads_files || !train.empty()) continue;
    diagnostics.error({origin.where, origin.path + ".train"}, "required by data.format " + format);
  }
  check_labels(origin, diagnostics);
  for (const TransformList* list : {&augment, &eval_transform}) {
    for (const auto& step : *list) {
      if (step->is_terminal() && step != list->back()) {
        diagnostics.error(step->origin, "must be the last of its list");
      }
    }
  }
  for (const auto& step : eval_transform) {
    if (step->is_random()) {
      diagnostics.error(step->origin,
                        "is random, but evaluation must be deterministic; move it to data.augment");
    }
  }
}

}  // namespace trainer
