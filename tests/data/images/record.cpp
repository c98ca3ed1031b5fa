// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/record.h"

#include <cstring>
#include <filesystem>
#include "tests/catch.h"

#include "core/base/checksum.h"
#include "core/data/formats.h"
#include "core/data/images/decode.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/record_layout.h"
#include "core/data/images/subset.h"
#include "core/data/images/synthetic.h"
#include "core/data/images/tolerant.h"
#include "tests/data/images/damage.h"
#include "tests/data/images/images.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

/// Two classes of images of several sizes, one of which is not an image.
void write_images(const TemporaryFolder& folder) {
  for (const char* name : {"ant", "bee"}) fs::create_directories(folder.path(name));
  write_file(folder.path("ant/1.png"), png(landscape(9, 14)));
  write_file(folder.path("ant/2.jpg"), jpeg(landscape(20, 17)));
  write_file(folder.path("bee/1.jpg"), jpeg(landscape(33, 31), {.orientation = 6}));
  write_file(folder.path("bee/2.jpg"), "no image at all");
  write_file(folder.path("bee/3.png"), png(landscape(12, 12)));
}

/// The bits that a source gives in training, augmented and mixed.
std::string training_bits(const ImageSource& source, const TransformList& list, int64_t batches) {
  const TrainingOrder order(source.size(), 4, false);
  const TransformChain chain = make_chain(list, source.sample_shape());
  const int64_t floats = 4 * numel(chain.output_shape());
  DataPipeline pipeline(
      image_batches(source, chain, TrainingBatches{.seed = 3, .order = order, .micro_batch = 4},
                    {.mixup = 0.4, .cutmix = 1}),
      {.workers = 2});
  std::string bits;
  for (int64_t i = 0; i < batches; ++i) {
    const Batch& batch = pipeline.next();
    bits.append(reinterpret_cast<const char*>(images_of(batch)), static_cast<size_t>(floats) * 4);
    bits.append(reinterpret_cast<const char*>(labels_of(batch)), 16);
    bits.append(reinterpret_cast<const char*>(other_labels_of(batch)), 16);
  }
  return bits;
}

TEST_CASE("a record of decoded samples gives the bits of its source") {
  const TemporaryFolder folder;
  const std::string path = folder.path("set.rec");
  const auto source = make_synthetic(3, Split::train, 23, {3, 7, 5}, 4);
  write_file(path, packed(*source));
  const auto record = open_record(path, kMaxPixels);
  CHECK(record->size() == 23);
  CHECK(record->sample_shape() == Shape{3, 7, 5});
  CHECK(record->classes() == 4);
  CHECK(record->class_names().empty());
  const auto info = peek_record(path);
  CHECK(info.size == 23);
  CHECK(info.shape == Shape{3, 7, 5});
  CHECK(!info.classes.has_value());  // only the number that its labels happen to use
  Image a, b;
  for (int64_t i : {22, 0, 7}) {
    source->read(i, a);
    record->read(i, b);
    CHECK(a.pixels == b.pixels);
    CHECK(a.label == b.label);
  }
  TransformList list;
  list.push_back(make_transform("random_crop"));
  list.push_back(make_transform("horizontal_flip"));
  CHECK(training_bits(*source, list, 20) == training_bits(*record, list, 20));
  CHECK_THAT(data_error([&] { record->check_labels({1}); }),
             ContainsSubstring(path + ": offset ") &&
                 ContainsSubstring("expected a label below 1, the network's number of classes"));
}

TEST_CASE("a record of image files gives the bits of its folder, damage included") {
  const TemporaryFolder folder, other;
  write_images(folder);
  const auto open = [&] { return open_image_folder({folder.path(""), kMaxPixels}); };
  const std::string path = other.path("set.rec");
  write_file(path, packed(*open()));
  const auto record = open_record(path, kMaxPixels);
  CHECK(record->size() == 5);
  CHECK(record->sample_shape() == kImageShape);
  CHECK(record->class_names() == std::vector<std::string>{"ant", "bee"});
  CHECK(record->is_encoded());
  Image a, b;
  for (int64_t i : {0, 1, 2, 4}) {
    open()->read(i, a);
    record->read(i, b);
    CHECK(a.pixels == b.pixels);
    CHECK(a.height == b.height);
    CHECK(a.label == b.label);
  }
  CHECK_THROWS_AS(record->read(3, b), UnreadableSampleError);
  CHECK_THROWS_WITH(record->read(3, b), ContainsSubstring(path + ", sample 3: "));

  TransformList list;
  list.push_back(make_transform("random_resized_crop"));
  set(*list[0], "size", int64_t{8});
  const ErrorBudget all{.percent = 100, .split = "data.train", .list_file = ""};
  const auto from_folder = tolerate_unreadable(open(), all);
  const auto from_record = tolerate_unreadable(open_record(path, kMaxPixels), all);
  CHECK(training_bits(*from_folder, list, 10) == training_bits(*from_record, list, 10));

  // Packed once more, and in part.
  CHECK(packed(*record) == packed(*open()));
  const auto part = take_samples(open_record(path, kMaxPixels), {0, 2, 3});
  write_file(other.path("part.rec"), packed(*part));
  CHECK(open_record(other.path("part.rec"), kMaxPixels)->size() == 3);
}

TEST_CASE("an image that cannot be read is packed as an empty one of its class") {
  const TemporaryFolder folder;
  write_images(folder);
  const auto source = open_image_folder({folder.path(""), kMaxPixels});
  fs::remove(folder.path("bee/1.jpg"));
  write_file(folder.path("x.rec"), packed(*source));
  const auto record = open_record(folder.path("x.rec"), kMaxPixels);
  Image image;
  record->read_encoded(2, image);
  CHECK(image.encoded.empty());
  CHECK(image.label == 1);
  CHECK_THROWS_AS(record->read(2, image), UnreadableSampleError);
}

TEST_CASE("format record stands in the table") {
  const TemporaryFolder folder;
  DataSection section;
  section.format = "record";
  section.train = folder.path("set.rec");
  const SourceRequest request{Split::train, {1, 2, 2}, 3, 1};
  CHECK(missing_files(section) == std::vector<std::string>{section.train});
  CHECK(!peek_source(section, request).has_value());
  write_file(section.train, packed(*make_synthetic(1, Split::train, 5, {1, 2, 2}, 3)));
  CHECK(missing_files(section).empty());
  CHECK(open_source(section, request)->size() == 5);
}

struct Damaged {
  TemporaryFolder folder;
  std::string path = folder.path("x.rec");
  std::string good = packed(*make_synthetic(3, Split::train, 6, {2, 3, 4}, 4));

  std::string error(const std::string& bytes) const {
    write_file(path, bytes);
    const std::string text = data_error([&] { read_all(*open_record(path, kMaxPixels)); });
    CHECK_THAT(text, ContainsSubstring(path + ": offset "));
    return text;
  }
  /// The good file with another tail and a corrected checksum.
  std::string with_tail(const std::function<void(RecordTail&)>& change) const {
    return with_sealed_tail(good, change);
  }
};

TEST_CASE("truncated, altered and foreign record files are refused with file and offset") {
  const Damaged damaged;
  const std::string& good = damaged.good;
  CHECK_THAT(damaged.error(""),
             ContainsSubstring("offset 0: expected the head of a record file, found the end of the file"));
  CHECK_THAT(damaged.error(std::string(500, 'x')),
             ContainsSubstring("offset 0: expected the mark of a record file"));
  CHECK_THAT(damaged.error(good.substr(0, 60)),
             ContainsSubstring("offset 60: expected the tail of a record file"));
  CHECK_THAT(damaged.error(good.substr(0, good.size() - 1)), ContainsSubstring("the file is truncated"));
  CHECK_THAT(damaged.error(good + "x"), ContainsSubstring("the mark of a record file's end"));
  std::string changed = good;
  changed[8] = 3;
  CHECK_THAT(damaged.error(changed), ContainsSubstring("offset 8: expected version 1 or 2, found 3"));
  changed = good;
  changed[12] = 7;
  CHECK_THAT(damaged.error(changed), ContainsSubstring("offset 12: expected samples of kind 0"));
  changed = good;
  changed[16 + 24 * 2 + 5] ^= 1;  // in the third sample
  CHECK_THAT(damaged.error(changed),
             ContainsSubstring("offset 64: expected 24 bytes with checksum") && ContainsSubstring("altered"));
  changed = good;
  changed[16 + 24 * 6 + 3] ^= 1;
  CHECK_THAT(damaged.error(changed), ContainsSubstring("offset 160: expected an index with checksum"));
  changed = good;
  changed[good.size() - 40] ^= 1;
  CHECK_THAT(damaged.error(changed), ContainsSubstring("expected a tail with checksum"));
}

TEST_CASE("a record's numbers are checked even where its checksums are right") {
  const Damaged damaged;
  const auto huge = uint64_t{1} << 62;
  const std::vector<std::function<void(RecordTail&)>> changes = {[](RecordTail& tail) { tail.samples = 0; },
                                                                 [=](RecordTail& tail) { tail.samples = huge; },
                                                                 [](RecordTail& tail) { tail.samples = 5; },
                                                                 [=](RecordTail& tail) { tail.index = huge; },
                                                                 [](RecordTail& tail) { tail.index = 3; },
                                                                 [=](RecordTail& tail) { tail.names = huge; },
                                                                 [](RecordTail& tail) { tail.names += 1; },
                                                                 [](RecordTail& tail) { tail.classes = 0; },
                                                                 [=](RecordTail& tail) { tail.classes = huge; },
                                                                 [](RecordTail& tail) { tail.classes = 1; },
                                                                 [](RecordTail& tail) { tail.channels = -3; },
                                                                 [](RecordTail& tail) { tail.height = int64_t{1} << 62; },
                                                                 [](RecordTail& tail) { tail.width = 5; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    INFO("change " << i);
    damaged.error(damaged.with_tail(changes[i]));
  }
  CHECK_NOTHROW(
      open_record((write_file(damaged.path, damaged.with_tail([](RecordTail&) {})), damaged.path), 1));
}

}  // namespace
}  // namespace trainer
