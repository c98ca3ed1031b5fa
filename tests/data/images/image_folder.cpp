// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include "tests/catch.h"

#include "core/data/formats.h"
#include "core/data/images/class_counts.h"
#include "core/data/images/subset.h"
#include "core/data/images/tolerant.h"
#include "core/data/images/transforms/table.h"
#include "core/data/subset.h"
#include "tests/data/images/damage.h"
#include "tests/data/images/decoding.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

std::string plain(int grey, int height = 12, int width = 12) {
  return png(draw(height, width, 1, [grey](int, int, int) { return grey; }));
}

void put(const std::string& folder, const std::string& name, const std::string& bytes) {
  const fs::path path = fs::path(folder) / name;
  fs::create_directories(path.parent_path());
  write_file(path.string(), bytes);
}

std::unique_ptr<ImageSource> open(const std::string& path) {
  return open_image_folder({path, kMaxPixels});
}

/// Label and first pixel of each sample.
std::vector<std::pair<int, int>> contents(const ImageSource& source) {
  std::vector<std::pair<int, int>> all;
  Image image;
  for (int64_t i = 0; i < source.size(); ++i) {
    source.read(i, image);
    all.emplace_back(image.label, image.pixels[0]);
  }
  return all;
}

TEST_CASE("classes and files are sorted by name; what is no image by name is passed over") {
  const TemporaryFolder folder;
  const std::string root = folder.path("set");
  put(root, "dog/b.JPG", jpeg(draw(8, 8, 1, [](int, int, int) { return 40; }), {.colours = "grey"}));
  put(root, "dog/a.png", plain(30));
  put(root, "dog/deeper/c.jpeg", plain(50));  // known by content, not by name
  put(root, "ant/z.Png", plain(10));
  put(root, "ant/y.png", jpeg(draw(8, 8, 1, [](int, int, int) { return 5; }), {.colours = "grey"}));
  put(root, "ant/.hidden.png", plain(99));
  put(root, "ant/notes.txt", "not an image");
  put(root, ".cache/x.png", plain(99));
  put(root, "loose.png", plain(99));
  const auto source = open(root);
  CHECK(source->size() == 5);
  CHECK(source->classes() == 2);
  CHECK(source->sample_shape() == kImageShape);
  CHECK(contents(*source) == std::vector<std::pair<int, int>>{{0, 5}, {0, 10}, {1, 30}, {1, 40}, {1, 50}});
  const auto info = peek_image_folder({root, kMaxPixels});
  CHECK(info.size == 5);
  CHECK(info.classes == 2);
  CHECK(info.skipped.text() == "2 skipped: 1 .txt, 1 outside the class folders");
  DataSection section;
  section.format = "image_folder", section.train = root;
  CHECK(missing_files(section).empty());
  section.train = root + "/nowhere";
  CHECK(missing_files(section) == std::vector<std::string>{root + "/nowhere"});
  CHECK(!peek_source(section, {}));

  source->check_labels({2});
  CHECK_THAT(data_error([&] { source->check_labels({1}); }),
             ContainsSubstring("at most 1 class folders") && EndsWith("found 2"));
}

TEST_CASE("folders that make no set of classes are refused by name") {
  const TemporaryFolder folder;
  const std::string train = folder.path("train"), val = folder.path("val");
  put(train, "cat/1.png", plain(1));
  put(train, "dog/1.png", plain(1));
  put(val, "cat/1.png", plain(1));
  DataSection section;
  section.format = "image_folder";
  section.train = train;
  section.val = val;
  const auto peek = [&](Split split) {
    return peek_source(section, {.split = split, .network_shape = {3, 8, 8}, .network_classes = 2})->size;
  };
  // Whichever of the two is read, the validation folder is the wrong one.
  const std::string refused = val + " (data.val): expected the classes of " + train + " (data.train), found ";
  CHECK(peek(Split::train) == 2);
  CHECK(data_error([&] { peek(Split::val); }) == refused + "no class 'dog'");
  put(val, "dog/1.png", plain(1));
  CHECK(peek(Split::val) == 2);
  put(val, "ant/1.png", plain(1));
  CHECK(data_error([&] { peek(Split::val); }) == refused + "also a class 'ant'");
  CHECK(data_error([&] { open_stored(section, {.split = Split::val}); }) == refused + "also a class 'ant'");
  write_file(folder.path("train.rec"), packed(*open(train)));
  write_file(folder.path("val.rec"), packed(*open(val)));
  section.format = "record";
  section.train = train + ".rec";
  section.val = val + ".rec";
  CHECK_THAT(data_error([&] { peek(Split::val); }),
             ContainsSubstring("val.rec (data.val): expected the classes of"));
  put(train, "ant/readme.txt", "");
  CHECK_THAT(data_error([&] { open(train); }),
             ContainsSubstring("train/ant: expected .jpg, .jpeg, .png, .webp"));

  put(folder.path("flat"), "1.png", plain(1));
  CHECK_THAT(data_error([&] { open(folder.path("flat")); }),
             ContainsSubstring("expected a folder for each class"));
  CHECK_THAT(data_error([&] { open(folder.path("flat/1.png")); }),
             ContainsSubstring("expected a folder, found a file"));
}

TEST_CASE("files that cannot be read say why") {
  const TemporaryFolder folder;
  const std::string root = folder.path("set");
  put(root, "a/1.png", "");
  put(root, "a/2.jpg", "dear diary");
  fs::create_symlink(root + "/gone", root + "/a/3.jpg");
  put(root, "a/4.png", plain(1, 30, 40));
  const auto source = open_image_folder({root, 1000});
  const std::vector<std::string> reasons = {"the file is empty", "neither JPEG, PNG, WebP, BMP, GIF",
                                            "No such file", "40 x 30 pixels, more than data.max_pixels 1000"};
  REQUIRE(source->size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    Image image;
    try {
      source->read(static_cast<int64_t>(i), image);
      FAIL("sample " << i << " was read");
    } catch (const UnreadableSampleError& error) {
      CHECK_THAT(error.sample().name, ContainsSubstring(root + "/a/" + std::to_string(i + 1)));
      CHECK_THAT(error.sample().reason, ContainsSubstring(reasons[i]));
    }
  }
}

/// 60 images of different sizes and brightness in 3 classes; the numbers in `bad` are cut off.
std::string mixed_folder(const TemporaryFolder& folder, const std::set<int>& bad) {
  const std::string root = folder.path("mixed");
  for (int i = 0; i < 60; ++i) {
    const Drawing drawing = landscape(40 + i, 90 - i);
    std::string file = i % 3 == 0 ? png(drawing) : jpeg(drawing, {.h_samples = 2, .v_samples = 2});
    if (bad.contains(i)) file.resize(file.size() / 2);
    put(root, std::string(1, static_cast<char>('a' + i / 20)) + "/" + std::to_string(100 + i) + ".jpg", file);
  }
  return root;
}

TransformList crops() {
  TransformList list;
  list.push_back(make_transform("random_resized_crop"));
  set(*list[0], "size", int64_t{32});
  list.push_back(make_transform("horizontal_flip"));
  return list;
}

std::vector<std::string> batches(const ImageSource& source, const TransformList& list, const Loading& loading,
                                 int count) {
  const TrainingOrder order(source.size(), 20, false);
  DataPipeline pipeline(
      image_batches(source, make_chain(list, source.sample_shape()), TrainingBatches{9, order, 10}), loading);
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) {
    const Batch& batch = pipeline.next();
    const auto* pixels = reinterpret_cast<const char*>(images_of(batch));
    all.emplace_back(pixels, size_t{10} * 3 * 32 * 32 * sizeof(float));
    all.back().append(reinterpret_cast<const char*>(labels_of(batch)), 40);
  }
  return all;
}

TEST_CASE(
    "crops of images of many sizes are the same bits for any number of workers, damaged files included") {
  const TemporaryFolder folder;
  const std::set<int> bad = GENERATE(std::set<int>{}, std::set<int>{7, 8, 30, 59});
  const std::string root = mixed_folder(folder, bad);
  const TransformList list = crops();
  std::vector<std::string> expected;
  for (const Loading& loading : {Loading{0, 1}, Loading{1, 2}, Loading{3, 4}}) {
    const auto source =
        tolerate_unreadable(open(root), {.percent = 10, .split = "data.train", .list_file = ""});
    const std::vector<std::string> made = batches(*source, list, loading, 30);
    if (expected.empty()) expected = made;
    CHECK(made == expected);
    std::set<std::string> named;
    for (const UnreadableSample& sample : source->take_unreadable()) {
      CHECK(named.insert(fs::path(sample.name).stem().string()).second);
      CHECK_THAT(sample.reason, !ContainsSubstring(root) && !EndsWith("."));
    }
    std::set<std::string> wanted;
    for (const int number : bad) wanted.insert(std::to_string(100 + number));
    CHECK(named == wanted);
    CHECK(source->take_unreadable().empty());
  }
  CHECK(std::set<std::string>(expected.begin(), expected.end()).size() == expected.size());
}

TEST_CASE("the next readable sample takes the place of an unreadable one, with its label") {
  const TemporaryFolder folder;
  const std::string root = folder.path("set");
  for (int i = 0; i < 6; ++i) put(root, std::string(1, static_cast<char>('a' + i)) + "/1.png", plain(10 * i));
  for (const char* bad : {"b/1.png", "c/1.png", "f/1.png"}) put(root, bad, "");
  const auto source = tolerate_unreadable(open(root), {.percent = 50, .split = "data.val", .list_file = ""});
  CHECK(contents(*source) ==
        std::vector<std::pair<int, int>>{{0, 0}, {3, 30}, {3, 30}, {3, 30}, {4, 40}, {0, 0}});
  CHECK(source->take_unreadable().size() == 3);
}

TEST_CASE("a split with more unreadable samples than its budget ends the run") {
  const TemporaryFolder folder;
  const std::string root = folder.path("set");
  for (int i = 0; i < 10; ++i) put(root, "a/" + std::to_string(i) + ".png", i < 3 ? "" : plain(i));
  const ErrorBudget two{.percent = 20, .split = "data.train", .list_file = "runs/x/bad_samples.txt"};
  const auto source = tolerate_unreadable(open(root), two);
  Image image;
  source->read(1, image);
  CHECK(image.pixels[0] == 3);  // samples 1 and 2 are the budget
  source->read(2, image);
  CHECK(data_error([&] { source->read(0, image); }) ==
        "data.train: 3 of 10 samples cannot be read, more than data.error_budget, 20 %; they are listed in "
        "runs/x/bad_samples.txt");
  CHECK(source->take_unreadable().size() == 3);

  for (int i = 3; i < 10; ++i) put(root, "a/" + std::to_string(i) + ".png", "");
  const auto none = tolerate_unreadable(open(root), {.percent = 100, .split = "data.val", .list_file = ""});
  CHECK(data_error([&] { none->read(4, image); }) == "data.val: none of 10 samples can be read");
}

TEST_CASE("a fraction for validation takes each sample once, by the seed") {
  const auto labels = [](Split split, double fraction, uint64_t seed) {
    const auto source = take_samples(std::make_unique<CountingSource>(200, Shape{1, 1, 1}),
                                     split_samples(200, {split, fraction, seed}));
    std::vector<int> first_bytes;
    Image image;
    for (int64_t i = 0; i < source->size(); ++i) {
      source->read(i, image);
      first_bytes.push_back(image.pixels[0]);
    }
    return first_bytes;
  };
  for (double fraction : {0.1, 0.25, 0.001, 0.999}) {
    std::vector<int> all = labels(Split::train, fraction, 1);
    const std::vector<int> val = labels(Split::val, fraction, 1);
    CHECK(std::is_sorted(all.begin(), all.end()));
    CHECK(static_cast<int64_t>(val.size()) == validation_count(200, fraction));
    all.insert(all.end(), val.begin(), val.end());
    std::sort(all.begin(), all.end());
    REQUIRE(all.size() == 200);
    for (int i = 0; i < 200; ++i) REQUIRE(all[static_cast<size_t>(i)] == i);
  }
  CHECK(validation_count(200, 0.1) == 20);
  CHECK(validation_count(200, 0.001) == 1);
  CHECK(validation_count(200, 0.999) == 199);
  CHECK(labels(Split::val, 0.1, 1) == labels(Split::val, 0.1, 1));
  CHECK(labels(Split::val, 0.1, 1) != labels(Split::val, 0.1, 2));
  CHECK_THAT(data_error([] { validation_count(1, 0.5); }), ContainsSubstring("data.val_fraction"));
}

TEST_CASE("a stratified fraction takes each class's share, by the seed, and no class's only sample") {
  std::vector<int32_t> labels;
  for (const auto& [label, count] : {std::pair{7, 100}, {-1, 10}, {3, 3}, {4, 1}, {900000000, 2}})
    labels.insert(labels.end(), static_cast<size_t>(count), label);
  const auto counts = [&](Split split, double fraction, uint64_t seed) {
    std::map<int32_t, int> found;
    for (const int64_t sample : split_classes(labels, {split, fraction, seed}))
      ++found[labels[static_cast<size_t>(sample)]];
    return found;
  };
  CHECK(counts(Split::val, 0.2, 1) == std::map<int32_t, int>{{7, 20}, {-1, 2}, {3, 1}});
  CHECK(counts(Split::train, 0.2, 1) ==
        std::map<int32_t, int>{{7, 80}, {-1, 8}, {3, 2}, {4, 1}, {900000000, 2}});
  CHECK(counts(Split::train, 0.999, 1) ==
        std::map<int32_t, int>{{7, 1}, {-1, 1}, {3, 1}, {4, 1}, {900000000, 1}});
  CHECK(counts(Split::val, 0.001, 1) == std::map<int32_t, int>{{7, 1}});
  for (const double fraction : {0.01, 0.1, 0.33, 0.5, 0.9}) {
    std::vector<int64_t> all = split_classes(labels, {Split::train, fraction, 5});
    const std::vector<int64_t> val = split_classes(labels, {Split::val, fraction, 5});
    CHECK(static_cast<int64_t>(val.size()) == validation_count(116, fraction));
    all.insert(all.end(), val.begin(), val.end());
    std::sort(all.begin(), all.end());
    REQUIRE(all.size() == 116);
    for (int64_t i = 0; i < 116; ++i) REQUIRE(all[static_cast<size_t>(i)] == i);
  }
  CHECK(split_classes(labels, {Split::val, 0.2, 1}) == split_classes(labels, {Split::val, 0.2, 1}));
  CHECK(split_classes(labels, {Split::val, 0.2, 1}) != split_classes(labels, {Split::val, 0.2, 2}));
  CHECK_THAT(data_error([] {
               split_classes(std::vector<int32_t>{0, 1, 2}, {Split::val, 0.2, 1});
             }),
             ContainsSubstring("each class has one sample"));
}

TEST_CASE("iterative stratification keeps the shares of all labels, also of rare ones beside frequent ones") {
  // 400 samples: a label of half of them, one of a tenth, one of 8, one of 1, and many without any.
  SampleLabelSets sets;
  for (int i = 0; i < 400; ++i) {
    std::vector<int32_t> set;
    if (i % 2 == 0) set.push_back(0);
    if (i % 10 == 0) set.push_back(5);
    if (i % 50 == 7) set.push_back(7000000);
    if (i == 200) set.push_back(-3);
    sets.add(set);
  }
  const auto counts = [&](Split split, double fraction, uint64_t seed) {
    std::map<int32_t, int> found;
    for (const int64_t sample : split_label_sets(sets, {split, fraction, seed}))
      for (const int32_t label : sets[static_cast<size_t>(sample)]) ++found[label];
    return found;
  };
  bool differs_at_random = false;
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    CHECK(counts(Split::val, 0.25, seed) == std::map<int32_t, int>{{0, 50}, {5, 10}, {7000000, 2}});
    CHECK(counts(Split::train, 0.25, seed) ==
          std::map<int32_t, int>{{0, 150}, {5, 30}, {7000000, 6}, {-3, 1}});
    CHECK(split_label_sets(sets, {Split::val, 0.25, seed}).size() == 100);
    CHECK(counts(Split::train, 0.999, seed).size() == 4);  // a sample of each class
    int rare = 0;
    for (const int64_t sample : split_samples(400, {Split::val, 0.25, seed}))
      rare += sample % 50 == 7 ? 1 : 0;
    differs_at_random = differs_at_random || rare != 2;
  }
  CHECK(differs_at_random);
  for (const double fraction : {0.001, 0.1, 0.33, 0.5, 0.9}) {
    std::vector<int64_t> all = split_label_sets(sets, {Split::train, fraction, 5});
    const std::vector<int64_t> val = split_label_sets(sets, {Split::val, fraction, 5});
    CHECK(static_cast<double>(val.size()) == Approx(validation_count(400, fraction)).margin(2));
    all.insert(all.end(), val.begin(), val.end());
    std::sort(all.begin(), all.end());
    REQUIRE(all.size() == 400);
    for (int64_t i = 0; i < 400; ++i) REQUIRE(all[static_cast<size_t>(i)] == i);
  }
  CHECK(split_label_sets(sets, {Split::val, 0.2, 1}) == split_label_sets(sets, {Split::val, 0.2, 1}));
  CHECK(split_label_sets(sets, {Split::val, 0.2, 1}) != split_label_sets(sets, {Split::val, 0.2, 2}));
}

TEST_CASE("iterative stratification of few samples: without labels, all alike, each with its own") {
  SampleLabelSets none, alike, own, two;
  const std::vector<int32_t> one = {4}, first = {0, 1};
  for (int32_t i = 0; i < 4; ++i) none.add({}), alike.add(one), own.add({&i, 1});
  for (int i = 0; i < 2; ++i) two.add(first);
  for (const double fraction : {0.01, 0.25, 0.5, 0.99}) {
    const SplitChoice choice{Split::val, fraction, 1};
    const auto count = static_cast<size_t>(validation_count(4, fraction));
    CHECK(split_label_sets(none, choice).size() == count);
    CHECK(split_label_sets(alike, choice).size() == count);
    CHECK(split_label_sets(two, choice).size() == 1);
    CHECK_THAT(data_error([&] { split_label_sets(own, choice); }),
               ContainsSubstring("each sample is the only one of a class"));
  }
  own.add({});
  CHECK(split_label_sets(own, {Split::val, 0.01, 1}) == std::vector<int64_t>{4});
  // Labels too rare for a share of their own do not take the others' away.
  SampleLabelSets rare;
  for (int32_t i = 0; i < 180; ++i) rare.add(std::array{i / 9, int32_t{20}});
  for (const double fraction : {0.05, 0.1, 0.2}) {
    const auto chosen = static_cast<double>(split_label_sets(rare, {Split::val, fraction, 1}).size());
    CHECK(chosen == Approx(180 * fraction).margin(1));
  }
  // Groups with samples of several labels: none is divided, and those without labels have their share.
  SampleLabelSets sets;
  std::vector<int32_t> groups;
  for (int32_t i = 0; i < 120; ++i) {
    i % 3 == 0 ? sets.add({}) : i % 3 == 1 ? sets.add(first) : sets.add(std::span(first).first(1));
    groups.push_back(i / 3);
  }
  const auto val = split_groups(sets, groups, {Split::val, 0.25, 3});
  REQUIRE(val.size() == 30);
  for (size_t i = 0; i < val.size(); i += 3) CHECK(val[i] / 3 == val[i + 2] / 3);
}

TEST_CASE("a split by groups divides none, keeps each class in training, and is near the shares") {
  // 40 patients of 1 to 7 images, each with one class; and one of half of a class.
  std::vector<int32_t> labels, groups;
  for (int32_t patient = 0; patient < 40; ++patient)
    for (int32_t i = 0; i <= patient % 7; ++i) labels.push_back(patient % 2), groups.push_back(patient);
  labels.insert(labels.end(), 30, 2), groups.insert(groups.end(), 30, 99);
  for (const uint64_t seed : {1, 2, 3}) {
    const auto val = split_groups(labels, groups, {Split::val, 0.25, seed});
    const auto train = split_groups(labels, groups, {Split::train, 0.25, seed});
    CHECK(val.size() + train.size() == labels.size());
    std::set<int32_t> of_val, of_train;
    std::map<int32_t, int> share, left;
    for (const int64_t i : val)
      of_val.insert(groups[static_cast<size_t>(i)]), ++share[labels[static_cast<size_t>(i)]];
    for (const int64_t i : train)
      of_train.insert(groups[static_cast<size_t>(i)]), ++left[labels[static_cast<size_t>(i)]];
    for (const int32_t group : of_val) CHECK(!of_train.contains(group));
    CHECK(left[2] == 30);  // its only patient
    for (const int32_t label : {0, 1}) {
      const double all = share[label] + left[label];
      CHECK(share[label] / all == Approx(0.25).margin(0.05));
    }
  }
  // Groups that are larger than the share: the best one.
  const std::vector<int32_t> one_class(40), quarters = [] {
    std::vector<int32_t> all;
    for (int32_t i = 0; i < 40; ++i) all.push_back(i / 10);
    return all;
  }();
  CHECK(split_groups(one_class, quarters, {Split::val, 0.01, 1}).size() == 10);
  CHECK_THAT(
      data_error([&] {
        split_groups(std::vector<int32_t>{0, 0, 1}, std::vector<int32_t>{0, 0, 1}, {Split::val, 0.5, 1});
      }),
      ContainsSubstring("data.split_by: no value of its column can be set aside"));
}

TEST_CASE("classes of training without a sample for validation are named") {
  CHECK(unvalidated_classes({{0, 3}, {1, 2}}, {{0, 1}, {1, 1}}, {"a", "b"}).empty());
  CHECK(unvalidated_classes({{0, 3}, {1, 2}}, {{0, 1}}, {"a", "b"}) ==
        "1 of 2 classes has no sample for validation: b");
  CHECK(unvalidated_classes({{0, 3}, {1, 0}}, {{0, 1}, {1, 0}}, {}).empty());
  LabelCounts many;
  for (int32_t i = 0; i < 9; ++i) many[i] = 1;
  CHECK(unvalidated_classes(many, {{8, 1}}, {}) ==
        "8 of 9 classes have no sample for validation: 0, 1, 2, 3, 4 and 3 more");
}

}  // namespace
}  // namespace trainer
