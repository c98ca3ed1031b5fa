// SPDX-License-Identifier: Apache-2.0
#include "core/data/section.h"

#include "tests/catch.h"

#include "core/config/fields.h"
#include "core/data/formats.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

struct Read {
  DataSection section;
  Diagnostics diagnostics;

  explicit Read(const std::string& yaml, bool check = true) {
    const Value value = parse_yaml(yaml, "r.yaml", diagnostics);
    Fields fields;
    section.declare(fields);
    fields.read(value, "data", diagnostics);
    if (check && diagnostics.ok()) {
      const auto origin_of = [&](const std::string& key) { return Origin{value.where, key}; };
      const InputKind kind = section.chosen_format().kinds().front();
      section.check(kind, kind == InputKind::tokens ? Shape{8} : Shape{1, 28, 28},
                    fields.resolved(Fields::Form::canonical), origin_of, diagnostics);
    }
  }
  std::string only_problem() const {
    REQUIRE(diagnostics.problems().size() == 1);
    return diagnostics.problems()[0];
  }
};

TEST_CASE("keys that came later leave the identity of earlier runs as it was") {
  const auto has = [](const std::string& yaml, const std::string& key) {
    Diagnostics diagnostics;
    DataSection section;
    Fields fields;
    section.declare(fields);
    fields.read(parse_yaml(yaml, "r.yaml", diagnostics), "data", diagnostics);
    REQUIRE(diagnostics.ok());
    return fields.resolved(Fields::Form::identity).find(key) != nullptr;
  };
  for (const char* key : {"shuffle", "webdataset", "tfrecord"}) CHECK(!has("format: idx", key));
  CHECK(!has("shuffle: full", "shuffle"));
  CHECK(!has("{webdataset: {label: label}, tfrecord: {first_label: 0}}", "webdataset"));
  CHECK(has("shuffle: blocks", "shuffle"));
  CHECK(has("webdataset: {label: class}", "webdataset"));
  CHECK(has("tfrecord: {first_label: 1}", "tfrecord"));
}

TEST_CASE("an order by blocks is read, and refused with weights") {
  CHECK(Read("{format: synthetic}").section.shuffle->blocks().block == 0);
  const Read read("{format: synthetic, shuffle: {name: blocks, block: 9}}");
  CHECK(read.section.shuffle->blocks().block == 9);
  CHECK(read.section.shuffle->blocks().window == 16);
  CHECK_THAT(Read("{format: synthetic, shuffle: blocks, sample_weights: balanced}").only_problem(),
             ContainsSubstring("data.shuffle: blocks takes each sample once"));
}

TEST_CASE("pipes and addresses are refused at their key, with what to do instead") {
  for (const std::string path :
       {"pipe:curl -s host/a.tar", "s3://bucket/{000..127}.tar", "https://host/a.tar"}) {
    const Read read("{format: webdataset, train: '" + path +
                    "', augment: [random_resized_crop: 28], eval_transform: [resize: 28, center_crop: 28]}");
    CHECK_THAT(read.only_problem(),
               ContainsSubstring("data.train: must be a path of files, got '" + path + "'") &&
                   ContainsSubstring("copy them to a disk first"));
  }
  CHECK(Read("{format: record, train: 'a:b//c'}").diagnostics.ok());
}

TEST_CASE("a whole data section") {
  const Read read(R"(
format: idx
train: /nowhere/train
val: /nowhere/val
workers: 2
prefetch: 8
drop_last: false
augment:
  - random_crop: {padding: 3}
  - horizontal_flip: 0.25
  - normalize: {mean: [0.286], std: [0.353]}
eval_transform:
  - normalize: {mean: [0.286], std: [0.353]}
)");
  CHECK(read.diagnostics.problems().empty());
  CHECK(read.section.worker_count(1) == 2);
  CHECK(read.section.prefetch == 8);
  CHECK(!read.section.drop_last);
  CHECK(read.section.images.augment.size() == 3);
  CHECK(read.section.images.eval_transform.size() == 1);
  CHECK(missing_files(read.section) == std::vector<std::string>{"/nowhere/train-images-idx3-ubyte[.gz]",
                                                                "/nowhere/train-labels-idx1-ubyte[.gz]",
                                                                "/nowhere/val-images-idx3-ubyte[.gz]",
                                                                "/nowhere/val-labels-idx1-ubyte[.gz]"});
  CHECK(!peek_source(read.section, {}).has_value());
}

TEST_CASE("problems of a data section are reported where they stand") {
  CHECK_THAT(Read("workers: 1").only_problem(), ContainsSubstring("data.train: required by data.format idx"));
  CHECK_THAT(Read("{format: tar, train: x}").only_problem(), StartsWith("r.yaml:1:2: "));
  CHECK_THAT(Read("{train: x, workers: 65}").only_problem(), StartsWith("r.yaml:1:12: "));
  CHECK_THAT(Read("{train: x, prefetch: 0}").only_problem(), StartsWith("r.yaml:1:12: "));
  CHECK_THAT(Read("{format: synthetic, synthetic: {train_samples: 0}}").only_problem(),
             StartsWith("r.yaml:1:33: "));
  CHECK_THAT(Read("{train: x, eval_transform: [horizontal_flip]}").only_problem(),
             StartsWith("r.yaml:1:29: ") && ContainsSubstring("is random") &&
                 ContainsSubstring("move it to data.augment"));
  CHECK_THAT(Read("{train: x, augment: [normalize: {mean: [0.5], std: [0.5]}, random_crop]}").only_problem(),
             StartsWith("r.yaml:1:22: ") && ContainsSubstring("must be the last of its list"));
  CHECK_THAT(Read("{train: x, augment: [normalize: {mean: [0.5]}]}").only_problem(),
             ContainsSubstring("std"));
  CHECK_THAT(Read("{train: x, augment: [normalize: {mean: [72.9], std: [0.5]}]}").only_problem(),
             ContainsSubstring("mean"));
  CHECK_THAT(Read("{train: x, augment: [normalize: {mean: [0.5], std: [0]}]}").only_problem(),
             ContainsSubstring("std"));
}

TEST_CASE("a key of another format is refused, unless it has its default or samples are made up") {
  CHECK_THAT(Read("{train: x, labels: labels.csv}").only_problem(),
             EndsWith("data.labels: is for data.format image_folder only, got idx"));
  CHECK_THAT(Read("{format: text, train: x, token_type: uint32}").only_problem(),
             EndsWith("data.token_type: is for data.format tokens only, got text"));
  for (const char* good : {"{train: x, labels: null, token_type: uint16, synthetic: {train_samples: 3}}",
                           "{format: synthetic, labels: labels.csv, token_type: uint32}"})
    CHECK(Read(good).diagnostics.problems().empty());
}

TEST_CASE("a synthetic section needs no files and takes the network's shape") {
  const Read read("{format: synthetic, synthetic: {train_samples: 30, val_samples: 20}}");
  CHECK(read.diagnostics.problems().empty());
  CHECK(missing_files(read.section).empty());
  CHECK(has_split(read.section, Split::val));
  const SourceRequest request{Split::val, {3, 8, 8}, 7, 1};
  const auto info = peek_source(read.section, request);
  REQUIRE(info.has_value());
  CHECK(info->size == 20);
  CHECK(info->shape == Shape{3, 8, 8});
  CHECK(info->classes == 7);
  const auto source = open_source(read.section, request);
  CHECK(source->size() == 20);
  CHECK(source->sample_shape() == Shape{3, 8, 8});
}

TEST_CASE("an IDX section without validation; labels are checked on opening") {
  TemporaryFolder folder;
  const std::string prefix = folder.path("set");
  write_file(prefix + "-images-idx3-ubyte", idx_bytes(0x803, {2, 1, 1}, "ab"));
  write_file(prefix + "-labels-idx1-ubyte", idx_bytes(0x801, {2}, std::string("\0\5", 2)));
  const Read read("train: " + prefix);
  CHECK(read.diagnostics.problems().empty());
  CHECK(!has_split(read.section, Split::val));
  CHECK(missing_files(read.section).empty());
  CHECK(open_source(read.section, {Split::train, {1, 1, 1}, 6, 1})->size() == 2);
  CHECK_THAT(data_error([&] {
               open_source(read.section, {Split::train, {1, 1, 1}, 5, 1});
             }),
             ContainsSubstring("offset 9: expected a label below 5"));
}

}  // namespace
}  // namespace trainer
