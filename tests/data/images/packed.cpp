// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/packed.h"

#include <fmt/core.h>

#include <algorithm>
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/data/formats.h"
#include "core/data/images/decode.h"
#include "core/data/images/encode_jpeg.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/record.h"
#include "core/data/images/synthetic.h"
#include "core/data/images/webdataset.h"
#include "core/data/images/webdataset_writer.h"
#include "tests/data/images/damage.h"
#include "tests/data/images/decoding.h"
#include "tests/data/images/images.h"
#include "tests/data/images/shards.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Samples of a folder, one of which is no image.
std::unique_ptr<ImageSource> folder_of_images(const TemporaryFolder& folder) {
  for (const char* name : {"ant", "bee"}) std::filesystem::create_directories(folder.path(name));
  write_file(folder.path("ant/1.png"), png(landscape(9, 14)));
  write_file(folder.path("ant/2.jpg"), jpeg(landscape(40, 37)));
  write_file(folder.path("bee/1.jpg"), jpeg(landscape(33, 31), {.orientation = 6}));
  write_file(folder.path("bee/2.jpg"), "no image at all");
  write_file(folder.path("bee/3.png"), png(landscape(12, 12)));
  return open_image_folder({folder.path(""), kMaxPixels});
}

std::string shard_of(const ImageSource& source, int64_t begin, int64_t end, const ShardFacts& facts,
                     int64_t threads) {
  std::string bytes;
  write_webdataset(source, begin, end, facts, threads, [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  return bytes;
}

TEST_CASE("shards have the files, labels and class names of their source, whatever the number of threads") {
  const PrivateCache cache;
  const TemporaryFolder images, folder;
  const auto source = folder_of_images(images);
  const ShardFacts facts{source->class_names(), {}};
  write_file(folder.path("s_0.tar"), shard_of(*source, 0, 3, facts, 1));
  write_file(folder.path("s_1.tar"), shard_of(*source, 3, 5, facts, 3));
  CHECK(shard_of(*source, 0, 5, facts, 1) == shard_of(*source, 0, 5, facts, 4));
  DataSection section;
  section.format = "webdataset";
  section.train = folder.path("s_{0..1}.tar");
  const SourceRequest request{.split = Split::train, .network_shape = {3, 8, 8}, .network_classes = 2};
  const auto opened = open_stored(section, request);
  const ImageSource& shards = as_images(*opened);
  CHECK(shards.class_names() == std::vector<std::string>{"ant", "bee"});
  CHECK(peek_source(section, request)->classes == 2);
  CHECK(known_class_names(section) == shards.class_names());
  REQUIRE(shards.size() == 5);
  Image a, b;
  for (int64_t i = 0; i < 5; ++i) {
    source->read_encoded(i, a);
    shards.read_encoded(i, b);
    CHECK(a.encoded == b.encoded);
    CHECK(a.label == b.label);
  }
  CHECK(shards.fingerprint().at("contents") == source->fingerprint().at("contents"));
  write_file(folder.path("few.tar"), shard_of(*source, 0, 5, {{"ant"}, {}}, 1));
  section.train = folder.path("few.tar");
  CHECK_THAT(data_error([&] { open_stored(section, request); }),
             ContainsSubstring("few.tar: expected labels below 1, the number of class names in it, found 1"));
}

TEST_CASE("transforms applied once give what a recipe makes of the images, exactly as PNG") {
  const PrivateCache cache;
  const TemporaryFolder images, folder;
  const auto source = folder_of_images(images);
  Packing packing{.transforms = packing_transforms("[resize: 8, median]"), .is_lossless = true};
  CHECK(texts_of(packing.transforms) == std::vector<std::string>{"resize: {size: 8}", "median: {size: 3}"});
  const auto small = pack_images(*source, std::move(packing));
  const std::string path = folder.path("s.tar");
  write_file(path, shard_of(*small, 0, 5, {}, 2));
  const auto shards = open_shards(open_set(webdataset_layout("label"), {path}), kMaxPixels);
  std::vector<std::vector<uint8_t>> expected;
  Image image;
  const TransformList list = packing_transforms("[resize: 8]"), filter = packing_transforms("[median]");
  Diagnostics diagnostics;
  const TransformChain resize(list, source->sample_shape(), diagnostics);
  RandomStream unused(0);
  for (int64_t i = 0; i < 5; ++i) {
    if (i == 3) continue;
    resize.read(*source, i, unused, image);
    filter[0]->apply(image, unused);
    expected.push_back(image.pixels);
    shards->read(i, image);
    CHECK(image.pixels == expected.back());
    CHECK(std::min(image.height, image.width) == 8);
    CHECK(image.label == *source->label_of(i));
  }
  CHECK_THROWS_AS(shards->read(3, image), UnreadableSampleError);
  CHECK(image.label == 1);
}

TEST_CASE("changed images are JPEG files of the quality asked for, and pixels become PNG files") {
  const auto pixels = make_synthetic(3, Split::train, 4, {1, 9, 7}, 3);
  Image image, again;
  const auto lossless = pack_images(*pixels, {.is_lossless = true});
  for (int64_t i = 0; i < 4; ++i) {
    pixels->read(i, image);
    lossless->read_encoded(i, again);
    CHECK(image_file_ending(again.encoded) == "png");
    decode_image(again.encoded, WholeView(), kMaxPixels, again);
    CHECK(std::equal(image.pixels.begin(), image.pixels.end(), again.pixels.begin()));
    CHECK(image.label == again.label);
  }
  const Drawing drawing = landscape(50, 61);
  image.resize(3, 50, 61);
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 50; ++y)
      for (int x = 0; x < 61; ++x)
        image.pixels[static_cast<size_t>((c * 50 + y) * 61 + x)] = Drawing(drawing).at(y, x, c);
  const std::string good = encode_jpeg(image, 95), poor = encode_jpeg(image, 30);
  CHECK(good.size() > 2 * poor.size());
  const Image decoded = by_libjpeg(good);
  REQUIRE(decoded.pixels.size() == image.pixels.size());
  double error = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i)
    error += std::abs(int{decoded.pixels[i]} - int{image.pixels[i]});
  CHECK(error / static_cast<double>(image.pixels.size()) < 6);
  image.resize(2, 50, 61);
  CHECK_THROWS_AS(encode_jpeg(image, 90), std::invalid_argument);
  CHECK_THAT(data_error([&] {
               pack_images(*make_synthetic(3, Split::train, 4, {2, 9, 7}, 3), {});
             }),
             ContainsSubstring("1 or 3 channels"));
}

TEST_CASE("transforms that cannot be applied once are refused") {
  for (const char* list : {"[random_crop: {padding: 2}]", "[normalize: {mean: [0.5], std: [0.5]}]",
                           "[median, resize: 8]", "[horizontal_flip]", "[cutout: 4]", "[equalize: 0.5]",
                           "[mediann]", "[median: 4]", "[median", "[{}]"}) {
    INFO(list);
    try {
      packing_transforms(list);
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
    }
  }
  CHECK(packing_transforms("[resize: 8, median: 5, gaussian, equalize, autocontrast]").size() == 5);
}

TEST_CASE("a recipe that repeats what packed images have had is warned of, with record files and shards") {
  const PrivateCache cache;
  const TemporaryFolder images, folder;
  const auto source = folder_of_images(images);
  const auto changed = pack_images(*source, {.transforms = packing_transforms("[resize: 20, median: 5]")});
  const std::vector<std::string> texts = {"resize: {size: 20}", "median: {size: 5}"};
  std::string record;
  write_record(
      *changed,
      [&](std::span<const std::byte> piece) {
        record.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      },
      texts, 3);
  write_file(folder.path("set.rec"), record);
  write_file(folder.path("set.tar"), shard_of(*changed, 0, 5, {{}, texts}, 1));
  for (const auto& [format, name] : {std::pair{"record", "set.rec"}, {"webdataset", "set.tar"}}) {
    const auto warning = [&, format = format, name = name](const std::string& list) {
      const DataSection section = read_section(
          fmt::format("{{format: {}, train: {}, augment: {}}}", format, folder.path(name), list));
      return peek_source(section, {.split = Split::train, .network_shape = {3, 8, 8}, .network_classes = 2})
          ->warning;
    };
    CHECK(warning("[resize: 20, center_crop: 16]").empty());
    CHECK_THAT(warning("[resize: 20, center_crop: 16, median]"),
               ContainsSubstring(
                   "the images have had resize: {size: 20}, median: {size: 5}, when they were packed, and "
                   "data.augment repeats median: {size: 3}; remove it there"));
  }
  const auto opened = open_record(folder.path("set.rec"), kMaxPixels);
  CHECK(opened->size() == 5);
  CHECK(opened->class_names() == std::vector<std::string>{"ant", "bee"});
  std::vector<std::string> read;
  peek_record(folder.path("set.rec"), &read);
  CHECK(read == texts);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    write_file(folder.path("x.rec"), mutated(record, seed));
    try {
      read_all(*open_record(folder.path("x.rec"), kMaxPixels));
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::data);
    }
  }
}

}  // namespace
}  // namespace trainer
