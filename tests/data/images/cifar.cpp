// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/cifar.h"

#include <filesystem>
#include "tests/catch.h"

#include "core/data/formats.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr size_t kCifarBytes = 3072;

/// A record with pixels that count up from `first`.
std::string cifar_record(const std::string& labels, int first) {
  std::string bytes = labels;
  for (size_t i = 0; i < kCifarBytes; ++i) bytes += static_cast<char>(static_cast<size_t>(first) + i);
  return bytes;
}

std::string labels(int a, int b = -1) {
  std::string text(1, static_cast<char>(a));
  return b < 0 ? text : text + static_cast<char>(b);
}

/// The official layout with a few samples to a file: sample i of the split has label i % 10, pixels from i.
void write_cifar10(const TemporaryFolder& folder) {
  int next = 0;
  for (int file = 1; file <= 5; ++file) {
    std::string bytes;
    for (int i = 0; i < file; ++i, ++next) bytes += cifar_record(labels(next % 10), next);
    write_file(folder.path("data_batch_" + std::to_string(file) + ".bin"), bytes);
  }
  write_file(folder.path("test_batch.bin"), cifar_record(labels(9), 77) + cifar_record(labels(0), 3));
}

TEST_CASE("CIFAR-10: the five files of a directory are one training set, the sixth is for validation") {
  const TemporaryFolder folder;
  write_cifar10(folder);
  const auto info = peek_cifar(Cifar::ten, folder.path(""), Split::train);
  CHECK(info.size == 15);
  CHECK(info.shape == Shape{3, 32, 32});
  CHECK(info.classes == 10);
  const auto train = open_cifar(Cifar::ten, folder.path(""), Split::train);
  CHECK(train->size() == 15);
  CHECK(train->resident_bytes() == info.resident_bytes);
  Image image;
  for (int64_t i : {14, 0, 5, 6, 1}) {
    train->read(i, image);
    CHECK(image.label == i % 10);
    CHECK(image.channels == 3);
    REQUIRE(image.pixels.size() == kCifarBytes);
    CHECK(image.pixels[0] == i);
    CHECK(image.pixels[kCifarBytes - 1] == (static_cast<size_t>(i) + kCifarBytes - 1) % 256);
  }
  const auto val = open_cifar(Cifar::ten, folder.path(""), Split::val);
  CHECK(val->size() == 2);
  val->read(0, image);
  CHECK(image.label == 9);
  CHECK(image.pixels[0] == 77);
}

TEST_CASE("CIFAR files may be named one by one") {
  const TemporaryFolder folder;
  write_cifar10(folder);
  const std::string path = folder.path("data_batch_2.bin") + "," + folder.path("test_batch.bin");
  const auto source = open_cifar(Cifar::ten, path, Split::val);
  CHECK(source->size() == 4);
  Image image;
  source->read(2, image);
  CHECK(image.label == 9);
  CHECK(missing_cifar(Cifar::ten, path + "," + folder.path("none.bin"), Split::train) ==
        std::vector<std::string>{folder.path("none.bin")});
}

TEST_CASE("CIFAR-100 has two labels, of which the fine one counts") {
  const TemporaryFolder folder;
  write_file(folder.path("train.bin"), cifar_record(labels(19, 99), 1) + cifar_record(labels(0, 42), 2));
  write_file(folder.path("test.bin"), cifar_record(labels(3, 7), 9));
  const auto train = open_cifar(Cifar::hundred, folder.path(""), Split::train);
  CHECK(train->size() == 2);
  CHECK(train->classes() == 100);
  Image image;
  train->read(0, image);
  CHECK(image.label == 99);
  CHECK(image.pixels[0] == 1);
  train->read(1, image);
  CHECK(image.label == 42);
  open_cifar(Cifar::hundred, folder.path(""), Split::val)->read(0, image);
  CHECK(image.label == 7);
}

TEST_CASE("bad CIFAR files are refused with file and offset") {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.bin");
  const auto error = [&](Cifar set, const std::string& bytes) {
    write_file(path, bytes);
    const std::string text = data_error([&] { open_cifar(set, path, Split::train); });
    CHECK_THAT(text, ContainsSubstring(path + ": offset "));
    return text;
  };
  const std::string good = cifar_record(labels(1), 0);
  CHECK_THAT(error(Cifar::ten, ""),
             ContainsSubstring("offset 0: expected records of 3073 bytes, found an empty file"));
  CHECK_THAT(error(Cifar::ten, good + good.substr(0, 3000)),
             ContainsSubstring(
                 "offset 6073: expected 73 more bytes, as records have 3073, found the end of the file"));
  CHECK_THAT(error(Cifar::hundred, good),
             ContainsSubstring("offset 3073: expected 1 more bytes, as records have 3074"));
  CHECK_THAT(error(Cifar::ten, good + cifar_record(labels(10), 0)),
             ContainsSubstring("offset 3073: expected a label below 10, found 10"));
  CHECK_THAT(error(Cifar::hundred, cifar_record(labels(0, 99), 0) + cifar_record(labels(19, 100), 0)),
             ContainsSubstring("offset 3075: expected a label below 100, found 100"));
  CHECK_THAT(error(Cifar::hundred, cifar_record(labels(20, 1), 0)),
             ContainsSubstring("offset 0: expected a coarse label below 20, found 20"));
  CHECK_THAT(error(Cifar::ten, gzip(good)), ContainsSubstring("gzip; unpack it with `tar -xzf`"));
}

TEST_CASE("a network with fewer classes is told the first CIFAR label that is too large, in its own file") {
  const TemporaryFolder folder;
  write_cifar10(folder);
  const auto source = open_cifar(Cifar::ten, folder.path(""), Split::train);
  CHECK_NOTHROW(source->check_labels({10}));
  // Sample 4 is the second of the third file.
  CHECK_THAT(data_error([&] { source->check_labels({4}); }),
             ContainsSubstring(
                 "data_batch_3.bin: offset 3073: expected a label below 4, the network's number of classes"));
}

TEST_CASE("formats cifar10 and cifar100 stand in the table and name the files that are missing") {
  const TemporaryFolder folder;
  DataSection section;
  section.format = "cifar10";
  section.train = folder.path("");
  section.val = section.train;
  const SourceRequest request{Split::train, {3, 32, 32}, 10, 1};
  CHECK(missing_files(section).size() == 6);
  CHECK(!peek_source(section, request).has_value());
  write_cifar10(folder);
  CHECK(missing_files(section).empty());
  CHECK(open_source(section, request)->size() == 15);
  section.format = "cifar100";
  CHECK(missing_files(section) ==
        std::vector<std::string>{folder.path("train.bin"), folder.path("test.bin")});
}

}  // namespace
}  // namespace trainer
