// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/idx.h"

#include <filesystem>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

constexpr uint32_t kImages = 0x803, kLabels = 0x801;

std::string random_bytes(size_t count, uint64_t seed, int64_t below = 256) {
  RandomStream random(seed);
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(random.next_below(below));
  return bytes;
}

/// A good pair of files; a test replaces the part that should be bad.
struct Files {
  TemporaryFolder folder;
  std::string prefix = folder.path("set");
  std::string images = prefix + "-images-idx3-ubyte", labels = prefix + "-labels-idx1-ubyte";
  std::string pixels = random_bytes(5 * 3 * 4, 1), classes = std::string("\3\0\2\1\3", 5);
  std::string good_images = idx_bytes(kImages, {5, 3, 4}, pixels);

  Files() {
    write_file(images, good_images);
    write_file(labels, idx_bytes(kLabels, {5}, classes));
  }
  std::string error() const {
    return data_error([this] { open_idx(prefix); });
  }
};

void check_samples(const ImageSource& source, const std::string& pixels, const std::string& labels) {
  REQUIRE(source.size() == static_cast<int64_t>(labels.size()));
  Image image;
  const size_t bytes = pixels.size() / labels.size();
  for (size_t i = 0; i < labels.size(); ++i) {
    source.read(static_cast<int64_t>(i), image);
    CHECK(image.label == static_cast<uint8_t>(labels[i]));
    CHECK(std::string(image.pixels.begin(), image.pixels.end()) == pixels.substr(i * bytes, bytes));
  }
}

TEST_CASE("plain and gzip files give the same samples") {
  Files files;
  const auto packing = GENERATE(0, 1, 2, 3);
  if (packing % 2 == 1) {
    std::filesystem::remove(files.images);
    write_file(files.images + ".gz", gzip(files.good_images));
  }
  if (packing >= 2) {
    std::filesystem::remove(files.labels);
    write_file(files.labels + ".gz", gzip(idx_bytes(kLabels, {5}, files.classes)));
  }
  const auto info = peek_idx(files.prefix);
  CHECK(info.size == 5);
  CHECK(info.shape == Shape{1, 3, 4});
  CHECK(!info.classes.has_value());
  CHECK(info.resident_bytes == 65);
  const auto source = open_idx(files.prefix);
  CHECK(source->classes() == 4);
  CHECK(source->sample_shape() == info.shape);
  CHECK(source->resident_bytes() == 65);
  check_samples(*source, files.pixels, files.classes);
}

TEST_CASE("a gzip file larger than every internal buffer, in several members") {
  Files files;
  const uint64_t seed = GENERATE(7u, 8u);
  const std::string pixels = random_bytes(300 * 32 * 32, seed), classes = random_bytes(300, seed + 50, 10);
  const std::string bytes = idx_bytes(kImages, {300, 32, 32}, pixels);
  std::filesystem::remove(files.images);
  const size_t split = 100'001;
  write_file(files.images + ".gz", gzip(bytes.substr(0, split)) + gzip(bytes.substr(split)));
  write_file(files.labels, idx_bytes(kLabels, {300}, classes));
  check_samples(*open_idx(files.prefix), pixels, classes);
}

TEST_CASE("missing files are listed, and opening them is an error of the recipe") {
  Files files;
  CHECK(missing_idx(files.prefix).empty());
  std::filesystem::remove(files.labels);
  CHECK(missing_idx(files.prefix) == std::vector<std::string>{files.labels + "[.gz]"});
  CHECK_THROWS_AS(peek_idx(files.prefix), Error);
  try {
    open_idx(files.prefix);
    FAIL("opened");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::recipe);
    CHECK_THAT(error.what(), StartsWith(files.labels + ": cannot be read"));
  }
}

TEST_CASE("a folder in the place of a file is named as one") {
  Files files;
  std::filesystem::remove(files.labels);
  std::filesystem::create_directory(files.labels);
  try {
    open_idx(files.prefix);
    FAIL("opened");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    CHECK(error.what() == files.labels + ": expected a regular file, found a directory");
  }
}

TEST_CASE("damaged plain files are refused with file and offset") {
  Files files;
  SECTION("magic number") {
    write_file(files.images, idx_bytes(0x802, {5, 3, 4}, files.pixels));
    CHECK(files.error() == files.images +
                               ": offset 0: expected magic number 0x00000803 (unsigned bytes, 3 dimensions), "
                               "found 0x00000802");
  }
  SECTION("element type") {
    write_file(files.labels, idx_bytes(0xD01, {5}, files.classes));
    CHECK(files.error() ==
          files.labels +
              ": offset 0: expected magic number 0x00000801 (unsigned bytes, 1 dimension), found 0x00000d01");
  }
  SECTION("empty file") {
    write_file(files.images, "");
    CHECK(files.error() == files.images + ": offset 0: expected 4 more bytes, found the end of the data");
  }
  SECTION("ends in the header") {
    write_file(files.images, files.good_images.substr(0, 10));
    CHECK(files.error() == files.images + ": offset 10: expected 2 more bytes, found the end of the data");
  }
  SECTION("no samples") {
    write_file(files.images, idx_bytes(kImages, {0, 3, 4}, ""));
    CHECK(files.error() == files.images + ": offset 4: expected a dimension of at least 1, found 0");
  }
  SECTION("no columns") {
    write_file(files.images, idx_bytes(kImages, {5, 3, 0}, ""));
    CHECK(files.error() == files.images + ": offset 12: expected a dimension of at least 1, found 0");
  }
  SECTION("truncated") {
    write_file(files.images, files.good_images.substr(0, 70));
    CHECK(files.error() ==
          files.images + ": offset 70: expected 5 x 3 x 4 bytes of data, as the header says, found 54");
  }
  SECTION("trailing bytes") {
    write_file(files.images, files.good_images + "xyz");
    CHECK(files.error() == files.images + ": offset 76: expected the end of the file, found 3 more bytes");
  }
  SECTION("a product beyond 64 bits") {
    write_file(files.images, idx_bytes(kImages, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, files.pixels));
    CHECK_THAT(files.error(), ContainsSubstring("expected 4294967295 x 4294967295 x 4294967295 bytes"));
  }
  SECTION("another number of labels") {
    write_file(files.labels, idx_bytes(kLabels, {4}, files.classes.substr(0, 4)));
    CHECK(files.error() == files.labels + ": offset 4: expected 5 labels, one for each image of " +
                               files.images + ", found 4");
  }
  // The same is found without loading.
  CHECK_THROWS_AS(peek_idx(files.prefix), Error);
}

TEST_CASE("damaged gzip files are refused with file and offset") {
  Files files;
  std::filesystem::remove(files.images);
  const std::string path = files.images + ".gz";
  const std::string packed = gzip(files.good_images);
  SECTION("cut at any byte") {
    for (size_t size = 2; size < packed.size(); ++size) {
      write_file(path, packed.substr(0, size));
      CHECK_THAT(files.error(), StartsWith(path + ": offset ") && EndsWith("the file is truncated"));
    }
  }
  SECTION("any damaged byte of the data or its checksum") {
    // The ten bytes of the gzip header hold a time stamp and the like, which are not checked.
    for (size_t i = 10; i < packed.size(); ++i) {
      std::string damaged = packed;
      damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
      write_file(path, damaged);
      // If the header's count is hit, the labels are the first that do not fit.
      CHECK_THAT(files.error(), StartsWith(files.prefix) && ContainsSubstring(": offset "));
    }
  }
  SECTION("garbage after the stream") {
    write_file(path, packed + "garbage");
    CHECK_THAT(files.error(),
               StartsWith(path + ": offset ") && ContainsSubstring("expected intact gzip data"));
  }
  SECTION("more data than the header says") {
    write_file(path, gzip(files.good_images + "x"));
    CHECK(files.error() ==
          path + ": offset 76 (uncompressed): expected the end of the data, found more bytes");
  }
  SECTION("less data than the header says") {
    write_file(path, gzip(files.good_images.substr(0, 70)));
    CHECK(files.error() ==
          path + ": offset 70 (uncompressed): expected 6 more bytes, found the end of the data");
  }
  SECTION("a header that asks for more memory than the file can fill") {
    write_file(path, gzip(idx_bytes(kImages, {1u << 31, 1u << 10, 1u << 10}, files.pixels)));
    CHECK_THAT(files.error(),
               StartsWith(path + ": offset 4 (uncompressed): expected 2147483648 x 1024 x 1024 bytes"));
  }
}

TEST_CASE("labels beyond the network's classes are refused at the first one") {
  Files files;
  const auto source = open_idx(files.prefix);
  source->check_labels({4});
  CHECK(data_error([&] { source->check_labels({3}); }) ==
        files.labels +
            ": offset 8: expected a label below 3, the network's number of classes, for sample 0, found 3");
  write_file(files.labels, idx_bytes(kLabels, {5}, std::string("\1\0\2\377\3", 5)));
  CHECK_THAT(data_error([&] { open_idx(files.prefix)->check_labels({10}); }),
             StartsWith(files.labels + ": offset 11: ") && EndsWith("for sample 3, found 255"));
}

TEST_CASE("the label that the loss ignores need not be a class") {
  Files files;
  write_file(files.labels, idx_bytes(kLabels, {5}, std::string("\1\377\0\2\377", 5)));
  const auto source = open_idx(files.prefix);
  CHECK_NOTHROW(source->check_labels({3, 255}));
  CHECK(
      data_error([&] {
        source->check_labels({3, 254});
      }) ==
      files.labels +
          ": offset 9: expected a label below 3, the network's number of classes, or 254, loss.ignore_index, "
          "for sample 1, found 255");
  CHECK(data_error([&] {
          source->check_labels({2, 255});
        }) == files.labels +
                  ": offset 11: expected a label below 2, the network's number of classes, or 255, "
                  "loss.ignore_index, "
                  "for sample 3, found 2");
}

TEST_CASE("Fashion-MNIST as Debian packages it") {
  const std::string prefix = "/usr/share/datasets/fashion-mnist/";
  if (!missing_idx(prefix + "train").empty()) return;
  const auto info = peek_idx(prefix + "train");
  CHECK(info.size == 60000);
  CHECK(info.shape == Shape{1, 28, 28});
  const auto source = open_idx(prefix + "t10k");
  CHECK(source->size() == 10000);
  CHECK(source->classes() == 10);
  CHECK(source->resident_bytes() == 10000 * (28 * 28 + 1));
  source->check_labels({10});
  std::vector<int> count(10);
  Image image;
  for (int64_t i = 0; i < source->size(); ++i) {
    source->read(i, image);
    ++count[static_cast<size_t>(image.label)];
  }
  CHECK(count == std::vector<int>(10, 1000));
}

}  // namespace
}  // namespace trainer
