// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/tfrecord.h"

#include <fmt/core.h>

#include "tests/catch.h"

#include "core/data/images/decode.h"
#include "core/data/images/example.h"
#include "tests/data/images/shards.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

std::vector<ShardSample> find_records(const std::string& file, const TfRecordKeys& keys = {}) {
  const std::string path = "x.tfrecord";
  return tfrecord_layout(keys)->find_samples({path, std::as_bytes(std::span(file))});
}

std::string tfrecord_error(const std::string& file, const TfRecordKeys& keys = {}) {
  return data_error([&] { find_records(file, keys); });
}

TEST_CASE("records of any length, with the label of the first class taken off") {
  std::string file;
  for (const int64_t bytes : {0, 1, 127, 128, 20000})
    file += tf_record(tf_example(std::string(static_cast<size_t>(bytes), 'i'), bytes + 1));
  const auto found = find_records(file, {.first_label = 1});
  REQUIRE(found.size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(found[i].bytes == static_cast<uint32_t>(found[i].label));
    CHECK(file.substr(static_cast<size_t>(found[i].offset), found[i].bytes) ==
          std::string(found[i].bytes, 'i'));
  }
  CHECK_THAT(
      tfrecord_error(file, {.first_label = 2}),
      ContainsSubstring(
          "x.tfrecord: record 0 at offset 0: expected a label from 2 (data.tfrecord.first_label), found 1"));
  CHECK(find_records(file, {.label = "none"})[0].label == kNoShardLabel);
}

TEST_CASE("damaged records are refused with file and record") {
  const std::string good = tf_record(tf_example("image", 3));
  const size_t size = good.size();
  const auto changed = [&](size_t at) {
    std::string file = good + good + good;
    file[size + at] ^= 1;
    return file;
  };
  CHECK_THAT(tfrecord_error(changed(0)),
             ContainsSubstring(
                 fmt::format("record 1 at offset {}: expected a length with the masked CRC-32C", size)));
  CHECK_THAT(tfrecord_error(changed(9)), ContainsSubstring("record 1 at offset"));
  CHECK_THAT(tfrecord_error("no record at all"),
             ContainsSubstring("record 0 at offset 0: expected a file of TFRecord"));
  for (const size_t cut : {size_t{1}, size_t{3}, size_t{4}, size_t{5}, size - 1})
    CHECK_THAT(tfrecord_error(good + good.substr(0, size - cut)),
               ContainsSubstring("record 1 at offset") && ContainsSubstring("truncated"));

  // Of an image's byte: found when it is read.
  const std::string path = "x.tfrecord", file = changed(size - 20);
  const auto layout = tfrecord_layout({});
  const ShardBytes shard{path, std::as_bytes(std::span(file))};
  const auto found = layout->find_samples(shard);
  REQUIRE(found.size() == 3);
  CHECK(layout->image_of(shard, found[0]).size() == 5);
  CHECK_THROWS_WITH(layout->image_of(shard, found[1]),
                    ContainsSubstring("expected data with the masked CRC-32C"));
  ShardSample wrong = found[0];
  for (const int64_t start :
       {int64_t{3}, static_cast<int64_t>(file.size()) - 15, static_cast<int64_t>(file.size())}) {
    wrong.start = start;
    CHECK_THROWS_AS(layout->image_of(shard, wrong), DecodeError);
  }
}

TEST_CASE("messages that are no Example with an image and a label are refused with their record") {
  const std::string good = tf_example("image", 3);
  const auto problem = [](const std::string& message) { return tfrecord_error(tf_record(message)); };
  CHECK_THAT(
      problem(""),
      ContainsSubstring(
          "record 0 at offset 0: expected a feature 'image/encoded' with an image, found no features"));
  CHECK_THAT(problem(good.substr(0, good.size() - 1)),
             ContainsSubstring("found the end of the record within a field"));
  CHECK_THAT(problem("\x0a" + std::string(11, '\xff')),
             ContainsSubstring("found a number of more than ten bytes"));
  CHECK_THAT(problem("\x0a\xff\xff\xff\xff\x1f"),
             ContainsSubstring("found the end of the record within a field"));
  CHECK_THAT(problem("\x0b"), ContainsSubstring("expected a message tf.train.Example"));
  CHECK_THAT(
      tfrecord_error(tf_record(good), {.image = "jpeg"}),
      ContainsSubstring("expected a feature 'jpeg' with an image, found image/encoded, image/class/label"));
  CHECK_THAT(tfrecord_error(tf_record(good), {.image = "image/class/label"}),
             ContainsSubstring("expected one text of bytes"));
  CHECK_THAT(tfrecord_error(tf_record(good), {.label = "image/encoded"}),
             ContainsSubstring("expected one whole number"));
  const std::string twice = good + good;  // of two entries with a key, the last counts
  CHECK(parse_example(twice, "image/encoded", "image/class/label").label == 3);
}

TEST_CASE("numbers of a feature may be packed or not") {
  using namespace std::string_literals;
  const auto label = [](const std::string& list) {
    const std::string feature = "\x1a"s + static_cast<char>(list.size()) + list;
    const std::string entry = "\x0a\1l\x12"s + static_cast<char>(feature.size()) + feature;
    const std::string image = "\x0a\1i\x12\5\x0a\3\x0a\1x"s;
    const std::string features =
        "\x0a"s + static_cast<char>(entry.size()) + entry + "\x0a"s + static_cast<char>(image.size()) + image;
    return parse_example("\x0a"s + static_cast<char>(features.size()) + features, "i", "l").label;
  };
  CHECK(label("\x0a\1\7"s) == 7);
  CHECK(label("\x08\7"s) == 7);
  for (const std::string& list : {""s, "\x0a\0"s, "\x0a\2\7\7"s, "\x08\7\x08\7"s, "\x0d\0\0\0\0"s})
    CHECK_THROWS(label(list));
}

}  // namespace
}  // namespace trainer
