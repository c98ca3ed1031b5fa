// SPDX-License-Identifier: Apache-2.0
#include "tests/data/images/shards.h"

#include <fmt/core.h>
#include <zlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include "tests/catch.h"

#include "core/base/crc32c.h"
#include "core/base/json.h"
#include "core/base/regular_file.h"
#include "core/data/file_pattern.h"
#include "core/data/formats.h"
#include "core/data/images/decode.h"
#include "core/data/images/tfrecord.h"
#include "core/data/images/tolerant.h"
#include "core/data/images/webdataset.h"
#include "tests/data/images/images.h"
#include "tests/data/images/tar_files.h"

namespace trainer {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

std::vector<std::string> PrivateCache::files() const {
  std::vector<std::string> all;
  if (!fs::exists(folder_.path("trainer"))) return all;
  for (const auto& entry : fs::directory_iterator(folder_.path("trainer")))
    all.push_back(entry.path().string());
  return all;
}

std::shared_ptr<ShardSet> open_set(const std::shared_ptr<const ShardLayout>& layout,
                                   const std::vector<std::string>& paths) {
  auto set = std::make_shared<ShardSet>(layout, paths, 2);
  set->unpack();
  return set;
}

std::string tf_record(const std::string& data) {
  const auto bytes_of_number = [](auto number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const auto sum = [&](const std::string& text) {
    return bytes_of_number(masked_crc32c(std::as_bytes(std::span(text))));
  };
  const std::string length = bytes_of_number(uint64_t{data.size()});
  return length + sum(length) + data + sum(data);
}

std::string tf_example(const std::string& image, int64_t label) {
  const auto varint = [](uint64_t number) {
    std::string text;
    for (; number > 127; number >>= 7) text += static_cast<char>((number & 127) | 128);
    return text + static_cast<char>(number);
  };
  const auto field = [&](char number, const std::string& contents) {
    return std::string(1, static_cast<char>((number << 3) | 2)) + varint(contents.size()) + contents;
  };
  const auto feature = [&](const std::string& name, const std::string& value) {
    return field(1, field(1, name) + field(2, value));
  };
  std::string features = feature("image/encoded", field(1, field(1, image)));
  if (label >= 0)
    features += feature("image/class/label", field(3, field(1, varint(static_cast<uint64_t>(label)))));
  return field(1, features);
}

namespace {

std::string shard_fixture(const std::string& name) {
  return fmt::format("{}/tests/fixtures/shards/{}", TRAINER_SOURCE_DIR, name);
}

/// Two shards of three samples with the labels 0, 1, 2.
std::string write_tars(const TemporaryFolder& folder) {
  for (int shard = 0; shard < 2; ++shard) {
    std::string archive;
    for (int i = 0; i < 3; ++i) {
      archive += tar_member(fmt::format("{}{}.png", shard, i), png(landscape(9 + i, 7 + shard)));
      archive += tar_member(fmt::format("{}{}.cls", shard, i), std::to_string(i));
    }
    write_file(folder.path(fmt::format("s-{}.tar", shard)), archive + tar_end());
  }
  return folder.path("s-{0..1}.tar");
}

DataSection shard_section(const std::string& format, const std::string& train) {
  DataSection section;
  section.format = format;
  section.train = train;
  return section;
}

const SourceRequest kRequest{
    .split = Split::train, .network_shape = {3, 8, 8}, .network_classes = 3, .threads = 2};

TEST_CASE("the bytes and labels of shards are those that the Python packages read") {
  const PrivateCache cache;
  const Json expected = Json::parse_or_null(read_text(shard_fixture("expected.json")).value());
  CHECK(expected.members().size() == 6);
  for (const auto& [pattern, rows] : expected.members()) {
    INFO(pattern);
    const bool is_tar = pattern.ends_with(".tar");
    for (int pass = 0; pass < 2; ++pass) {  // from the files, then from the index in the cache
      const auto set = open_set(is_tar ? webdataset_layout("label") : tfrecord_layout({}),
                                files_of_pattern(shard_fixture(pattern)));
      const auto source = open_shards(set, kMaxPixels);
      REQUIRE(source->size() == static_cast<int64_t>(rows.size()));
      Image image, decoded;
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto index = static_cast<int64_t>(i);
        source->read_encoded(index, image);
        source->read(index, decoded);
        CHECK(image.label == rows[i]["label"].integer());
        CHECK(decoded.label == image.label);
        CHECK(source->label_of(index) == image.label);
        CHECK(
            static_cast<int64_t>(::crc32(0, image.encoded.data(), static_cast<uInt>(image.encoded.size()))) ==
            rows[i]["crc32"].integer());
        CHECK_THAT(set->name_of(set->sample(index)), ContainsSubstring(is_tar ? ", sample " : ", record ") &&
                                                         Catch::Matchers::EndsWith(rows[i]["key"].text()));
      }
    }
  }
  CHECK(cache.files().size() == 6);
}

TEST_CASE("an index takes 32 bytes a sample, and unpacked records what they have") {
  const PrivateCache cache;
  const TemporaryFolder folder;
  const auto tars = open_set(webdataset_layout("label"), files_of_pattern(write_tars(folder)));
  CHECK(tars->resident_bytes() == 6 * 32);
  std::string records;
  for (int i = 0; i < 40; ++i) records += tf_record(tf_example(std::string(500, 'x'), i));
  write_file(folder.path("a.tfrecord"), records);
  write_file(folder.path("b.gz"), gzip(records));
  CHECK(open_set(tfrecord_layout({}), {folder.path("a.tfrecord")})->resident_bytes() == 40 * 32);
  for (int pass = 0; pass < 2; ++pass) {
    ShardSet packed(tfrecord_layout({}), {folder.path("a.tfrecord"), folder.path("b.gz")}, 1);
    // Known to a plan before they are unpacked.
    CHECK(packed.resident_bytes() == 80 * 32 + static_cast<int64_t>(records.size()));
    packed.unpack();
    CHECK(packed.resident_bytes() == 80 * 32 + static_cast<int64_t>(records.size()));
    CHECK(packed.image(packed.sample(79)).size() == 500);
  }
}

TEST_CASE("shards that have changed are indexed again, and a change within a run ends it") {
  const PrivateCache cache;
  const TemporaryFolder folder;
  const std::string pattern = write_tars(folder);
  const DataSection section = shard_section("webdataset", pattern);
  const auto source = open_source(section, kRequest);
  Image image;
  as_images(*source).read(0, image);
  CHECK(cache.files().size() == 1);

  const fs::path second = folder.path("s-1.tar");
  const auto time = fs::last_write_time(second);
  write_file(second.string(),
             tar_member("z.png", png(landscape(5, 5))) + tar_member("z.cls", "2") + tar_end());
  as_images(*source).read(2, image);  // of the first shard
  CHECK_THAT(data_error([&] { as_images(*source).read(3, image); }),
             ContainsSubstring("s-1.tar: changed while it was in use"));
  CHECK(open_source(shard_section("webdataset", pattern), kRequest)->size() == 4);
  CHECK(cache.files().size() == 2);
  // Of the same size, but later.
  const auto written = fs::last_write_time(second);
  write_file(second.string(),
             tar_member("z.png", png(landscape(5, 5))) + tar_member("z.cls", "1") + tar_end());
  fs::last_write_time(second, written + std::chrono::nanoseconds(1000));
  CHECK(as_images(*open_source(shard_section("webdataset", pattern), kRequest)).label_of(3) == 1);

  // Of the same size, with the time of before, and truncated.
  fs::last_write_time(second, time);
  const auto again = open_source(shard_section("webdataset", pattern), kRequest);
  fs::resize_file(second, 1024);
  CHECK_THAT(data_error([&] { as_images(*again).read(3, image); }),
             ContainsSubstring("changed while it was in use"));
  fs::remove(second);
  as_images(*again).read(0, image);
}

TEST_CASE("a cache that is damaged, missing or cannot be written costs only the pass over the shards") {
  const PrivateCache cache;
  const TemporaryFolder folder;
  const std::string pattern = write_tars(folder);
  const auto size = [&] { return open_source(shard_section("webdataset", pattern), kRequest)->size(); };
  CHECK(size() == 6);
  REQUIRE(cache.files().size() == 1);
  write_file(cache.files()[0], "no index");
  CHECK(size() == 6);
  fs::resize_file(cache.files()[0], fs::file_size(cache.files()[0]) - 7);
  CHECK(size() == 6);
  test::Environment environment;
  environment.set("XDG_CACHE_HOME", "/dev/null");
  CHECK(size() == 6);
  environment.set("XDG_CACHE_HOME", nullptr);
  environment.set("HOME", nullptr);
  CHECK(size() == 6);
}

TEST_CASE("an index of other contents, whose file's time was turned back, reads no other memory") {
  const PrivateCache cache;
  const TemporaryFolder folder;
  write_tars(folder);
  const std::string path = folder.path("s-0.tar");
  const auto layout = webdataset_layout("label");
  const auto time = fs::last_write_time(path);
  const auto size = fs::file_size(path);
  open_set(layout, {path});
  write_file(path, std::string(size, 'x'));
  fs::last_write_time(path, time);
  const auto source = open_shards(open_set(layout, {path}), kMaxPixels);
  Image image;
  CHECK_THROWS(source->read(0, image));  // its sample's name cannot be read, either
}

TEST_CASE("planning knows a set without reading images; val_fraction and labels are those of any images") {
  const PrivateCache cache;
  const TemporaryFolder folder;
  DataSection section = shard_section("webdataset", write_tars(folder));
  section.val_fraction = 0.34;
  SourceRequest request = kRequest;
  request.wants_labels = request.stratifies = true;
  const auto info = peek_source(section, request);
  REQUIRE(info.has_value());
  CHECK(info->size == 4);
  CHECK(info->shape == Shape{3, -1, -1});
  CHECK(!info->classes.has_value());
  CHECK(info->labels.size() == 4);
  CHECK(info->is_shared);
  CHECK(info->resident_bytes == 6 * 32 + 4 * 8);
  CHECK(open_source(section, request)->size() == 4);
  request.split = Split::val;
  CHECK(open_source(section, request)->size() == 2);
  CHECK(open_source(section, request)->fingerprint() ==
        as_images(*open_source(section, kRequest)).fingerprint());
  section.train = folder.path("s-{0..3}.tar");
  CHECK(missing_files(section) == std::vector<std::string>{folder.path("s-2.tar"), folder.path("s-3.tar")});
}

TEST_CASE(
    "labels that are missing or too high are refused with file and offset, if the network has classes") {
  const PrivateCache cache;
  const TemporaryFolder folder;
  const std::string image = png(landscape(5, 5));
  write_file(folder.path("a.tar"), tar_member("a.png", image) + tar_member("a.cls", "3") +
                                       tar_member("b.png", image) +
                                       tar_member("b.json", "{\"label\": \"cat\"}") + tar_end());
  write_file(folder.path("a.tfrecord"), tf_record(tf_example(image, 7)) + tf_record(tf_example(image, -1)));
  SourceRequest request = kRequest;
  for (const auto& [format, name, of_first, of_second] :
       {std::tuple{"webdataset", "a.tar", "sample a, found 3",
                   "a member .cls, or .json with a number at 'label'"},
        {"tfrecord", "a.tfrecord", "record 0, found 7",
         "a feature 'image/class/label' (data.tfrecord.label)"}}) {
    const DataSection section = shard_section(format, folder.path(name));
    request.network_classes = 3;
    CHECK_THAT(data_error([&] { open_source(section, request); }),
               ContainsSubstring(fmt::format("{}: offset 0: expected a label below 3", name)) &&
                   ContainsSubstring(of_first));
    request.network_classes = 8;
    CHECK_THAT(data_error([&] { open_source(section, request); }),
               ContainsSubstring(of_second) && ContainsSubstring("found none"));
    request.network_classes = 0;
    CHECK(open_source(section, request)->size() == 2);
  }
}

TEST_CASE("damaged images of shards count against the error budget") {
  const PrivateCache cache;
  const TemporaryFolder folder;
  const std::string image = png(landscape(5, 5));
  write_file(folder.path("a.tar"), tar_member("a.png", "no image") + tar_member("a.cls", "1") +
                                       tar_member("b.png", image) + tar_member("b.cls", "0") + tar_end());
  std::string record = tf_record(tf_example(image, 1));
  record[record.size() - 60] ^= 1;  // within the image
  write_file(folder.path("a.tfrecord"), record + tf_record(tf_example(image, 0)));
  for (const auto& [format, name, problem] :
       {std::tuple{"webdataset", "a.tar", "a.tar, sample a: neither JPEG"},
        {"tfrecord", "a.tfrecord", "a.tfrecord, record 0: expected data with the masked CRC-32C"}}) {
    DataSection section = shard_section(format, folder.path(name));
    section.error_budget = 50;
    Image read;
    const auto source = open_source(section, kRequest);
    as_images(*source).read(0, read);
    CHECK(read.label == 0);
    const std::vector<UnreadableSample> unreadable = source->take_unreadable();
    REQUIRE(unreadable.size() == 1);
    CHECK_THAT(unreadable[0].name + ": " + unreadable[0].reason, ContainsSubstring(problem));
    section.error_budget = 0;
    CHECK_THAT(data_error([&] { as_images(*open_source(section, kRequest)).read(0, read); }),
               ContainsSubstring("1 of 2 samples cannot be read"));
  }
}

}  // namespace
}  // namespace trainer
