// SPDX-License-Identifier: Apache-2.0
// Masks stay with their images: in every transform of the table, and as they are read.
#include "core/data/images/masks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include "tests/catch.h"

#include "core/data/formats.h"
#include "core/data/images/decode.h"
#include "core/data/images/resample.h"
#include "core/data/images/statistics.h"
#include "core/data/images/transforms/augment_ops.h"
#include "core/data/images/transforms/table.h"
#include "tests/data/images/damage.h"
#include "tests/data/images/images.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

constexpr uint8_t kOutside = 255;
constexpr int kMargin = 4;  // filters blend pixels about the borders of regions

/// Four regions of unequal sizes, each of one colour, and a mask with their numbers.
Image four_regions(int64_t height, int64_t width) {
  constexpr std::array<std::array<uint8_t, 3>, 4> kColours = {
      {{40, 90, 200}, {210, 60, 70}, {120, 230, 110}, {250, 240, 20}}};
  Image image;
  image.resize(3, height, width);
  image.mask.resize(static_cast<size_t>(height * width));
  image.mask_padding = kOutside;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const size_t region = (y * 5 < height * 2 ? 0U : 2U) + (x * 3 < width ? 0U : 1U);
      const auto place = static_cast<size_t>(y * width + x);
      image.mask[place] = static_cast<uint8_t>(region);
      for (size_t c = 0; c < 3; ++c) image.pixels[c * image.mask.size() + place] = kColours[region][c];
    }
  }
  return image;
}

int64_t mask_at(const Image& image, int64_t y, int64_t x) {
  const bool is_inside = y >= 0 && x >= 0 && y < image.height && x < image.width;
  return is_inside ? image.mask[static_cast<size_t>(y * image.width + x)] : -1;
}

bool is_within_region(const Image& image, int64_t y, int64_t x) {
  for (int64_t v = y - kMargin; v <= y + kMargin; ++v) {
    for (int64_t u = x - kMargin; u <= x + kMargin; ++u) {
      if (mask_at(image, v, u) != mask_at(image, y, x)) return false;
    }
  }
  return true;
}

/// Whether all pixels well within a region of the mask have one colour.
bool is_aligned(const Image& image) {
  if (static_cast<int64_t>(image.mask.size()) != image.height * image.width) return false;
  std::array<std::set<std::array<int, 3>>, 256> colours;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      if (!is_within_region(image, y, x)) continue;
      const auto place = static_cast<size_t>(y * image.width + x), plane = image.mask.size();
      colours[image.mask[place]].insert(
          {image.pixels[place], image.pixels[plane + place], image.pixels[2 * plane + place]});
    }
  }
  return std::ranges::all_of(colours, [](const auto& of_region) { return of_region.size() <= 1; });
}

/// One that does much, if its parameters decide how much.
std::unique_ptr<Transform> strong(const std::string& name) {
  auto transform = make_transform(name);
  const auto has = [&](const char* field) {
    Fields fields;
    transform->declare(fields);
    return std::ranges::any_of(fields.list(), [&](const Field& each) { return each.name == field; });
  };
  if (has("size") && name != "median") set(*transform, "size", int64_t{41});
  if (name == "gaussian_noise") {  // one colour for each region
    set(*transform, "sigma", 0.0);
    set(*transform, "mean", 0.3);
  }
  if (has("padding")) set(*transform, "padding", int64_t{17});
  if (has("degrees")) set(*transform, "degrees", 90.0);
  if (has("num_ops")) set(*transform, "num_ops", int64_t{3});
  if (has("magnitude")) set(*transform, "magnitude", int64_t{20});
  for (const char* amount : {"brightness", "contrast", "saturation"}) {
    if (has(amount)) set(*transform, amount, 0.8);
  }
  return transform;
}

TEST_CASE("every transform keeps masks on their images, or is refused with masks") {
  int refused = 0;
  for (const auto& row : transforms()) {
    INFO(row.name);
    TransformList list;
    list.push_back(strong(row.name));
    Diagnostics diagnostics;
    check_masks_follow(list, diagnostics);
    const MaskEffect effect = list[0]->mask_effect();
    CHECK(diagnostics.ok() == (effect != MaskEffect::covered));
    if (effect == MaskEffect::covered) {
      ++refused;
      continue;
    }
    bool moved = false;
    for (const auto& [height, width] : {std::pair{61, 83}, std::pair{90, 57}, std::pair{64, 64}}) {
      const Image original = four_regions(height, width);
      REQUIRE(is_aligned(original));
      for (uint32_t sample = 0; sample < 40; ++sample) {
        Image image = original;
        RandomStream random(7, 1, sample);
        list[0]->apply(image, random);
        INFO(height << "x" << width << ", draw " << sample);
        REQUIRE(is_aligned(image));
        moved = moved || image.mask != original.mask;
      }
    }
    CHECK(moved == (effect == MaskEffect::moved));
  }
  CHECK(refused == 2);  // cutout and random_erasing
}

TEST_CASE("every operation of the augmentation policies keeps masks on their images") {
  for (const AugmentOp& op : augment_ops()) {
    for (const int64_t level : {0, 9, 20, 30}) {
      for (const double sign : {1.0, -1.0}) {
        INFO(op.name << " " << level << " " << sign);
        Image image = four_regions(75, 98);
        const double magnitude = op.wide_magnitude({level, 31}, image.height, image.width);
        op.apply(image, op.is_signed ? sign * magnitude : magnitude);
        CHECK(is_aligned(image));
      }
    }
  }
}

/// The first two channels hold y and x plus 1, the third 255; the mask one of the two.
Image coordinates(int64_t height, int64_t width, bool of_x) {
  Image image;
  image.resize(3, height, width);
  image.mask_padding = 0;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const auto place = static_cast<size_t>(y * width + x), plane = static_cast<size_t>(height * width);
      image.pixels[place] = static_cast<uint8_t>(y + 1);
      image.pixels[plane + place] = static_cast<uint8_t>(x + 1);
      image.pixels[2 * plane + place] = 255;
      image.mask.push_back(static_cast<uint8_t>((of_x ? x : y) + 1));
    }
  }
  return image;
}

/// The largest distance between a pixel's place by its colours and by the mask, where no padding is near.
double largest_distance(const Image& image, bool of_x) {
  const auto plane = static_cast<size_t>(image.height * image.width);
  double largest = 0;
  for (size_t i = 0; i < plane; ++i) {
    const int covered = image.pixels[2 * plane + i];
    if (covered == 0) CHECK(image.mask[i] == 0);
    if (covered < 255) continue;
    largest = std::max(largest,
                       std::abs(static_cast<double>(image.pixels[(of_x ? plane : 0) + i]) - image.mask[i]));
  }
  return largest;
}

TEST_CASE("a mask's pixels are those at the places of the image's pixels, to one pixel") {
  const auto [height, width] = GENERATE(std::pair{37, 53}, std::pair{120, 91}, std::pair{1, 9});
  const bool of_x = GENERATE(false, true);
  for (const char* name : {"horizontal_flip", "vertical_flip", "rotate90", "random_crop", "rotation",
                           "resize", "random_resized_crop"}) {
    const auto transform = strong(name);
    for (uint32_t sample = 0; sample < 50; ++sample) {
      INFO(name << " of " << height << "x" << width << ", draw " << sample);
      if (std::string(name) == "random_crop" && height < 7) continue;  // smaller than the window
      Image image = coordinates(height, width, of_x);
      RandomStream random(3, 0, sample);
      transform->apply(image, random);
      // A filter that makes an image smaller is cut off at the edges, and its centre moves inwards.
      const double smaller = std::max<double>({1.0, height / 41.0, width / 41.0});
      CHECK(largest_distance(image, of_x) <= 1 + (smaller - 1) / 3);
    }
  }
}

TEST_CASE("nearest neighbours of exact factors") {
  Image image = coordinates(4, 6, true);
  resample(image, {{0, 4, 0, 4, 2}, {0, 6, 0, 6, 12}});
  CHECK(image.mask ==
        std::vector<uint8_t>{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6});
}

// Files.

std::string grey(int height, int width, const std::function<int(int y, int x)>& value, int bits = 8) {
  return png(draw(height, width, 1, [&](int y, int x, int) { return value(y, x); }), {.bits = bits});
}

std::string colours(int height, int width) {
  return png(draw(height, width, 3, [](int y, int x, int c) {
    return c == 0 ? y + 1 : c == 1 ? x + 1 : 255;
  }));
}

/// Images and masks of several sizes; values of the masks are columns modulo `classes`.
struct Set {
  explicit Set(int classes = 3) {
    for (const char* name : {"images/deep", "masks/deep"}) fs::create_directories(folder.path(name));
    const std::vector<std::pair<int, int>> sizes = {{31, 47}, {64, 40}, {50, 50}, {33, 90}};
    const char* names[] = {"a", "deep/b", "c", "deep/d"};
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto [height, width] = sizes[i];
      write_file(folder.path(std::string("images/") + names[i] + (i == 2 ? ".JPG" : ".png")),
                 i == 2 ? jpeg(draw(height, width, 3,
                                    [](int y, int x, int c) {
                                      return c == 0 ? y + 1 : c == 1 ? x + 1 : 255;
                                    }),
                               {.quality = 100, .colours = "rgb"})
                        : colours(height, width));
      write_file(folder.path(std::string("masks/") + names[i] + ".png"),
                 grey(height, width, [&](int, int x) { return x % classes; }));
    }
  }

  DataSection section(const std::string& more = "") const {
    return read_section("format: image_folder\ntrain: " + folder.path("images") +
                        "\nmasks: " + folder.path("masks") + "\n" + more);
  }
  std::unique_ptr<DataSource> open(const DataSection& section, int64_t classes = 3,
                                   Split split = Split::train) const {
    return open_source(
        section,
        {.split = split, .network_shape = {3, 24, 24}, .network_classes = classes, .ignored_label = 255});
  }

  TemporaryFolder folder;
};

TEST_CASE("images at any depth have the masks of the same paths, whatever the view") {
  const Set set(200);
  const DataSection section =
      set.section("augment: [{random_resized_crop: 24}, horizontal_flip, {rotation: 20}]\n");
  const auto source = set.open(section, 200);
  const ImageSource& images = as_images(*source);
  CHECK(images.size() == 4);
  CHECK(images.has_masks());
  CHECK(peek_source(section, {.split = Split::train})->size == 4);
  Diagnostics diagnostics;
  const TransformChain chain(section.images.augment, {3, -1, -1}, diagnostics);
  REQUIRE(diagnostics.ok());
  Image image;
  for (int64_t index = 0; index < 4; ++index) {
    for (uint32_t draw = 0; draw < 20; ++draw) {
      chain.read(images, index, RandomStream(5, 0, draw), image);
      REQUIRE(image.mask.size() == 24 * 24);
      for (size_t i = 0; i < image.mask.size(); ++i) {
        const int covered = image.pixels[2 * 576 + i], x = image.pixels[576 + i] - 1;
        if (covered == 0) REQUIRE(image.mask[i] == 255);
        if (covered == 255) REQUIRE(std::abs(x - image.mask[i]) <= 3);
      }
    }
  }
}

TEST_CASE("a window changes the colours of images with masks, and no mask") {
  const Set set;
  const DataSection section = set.section("augment: [{window: {from: 10, to: 40}}]\n");
  const auto source = set.open(section);
  const ImageSource& images = as_images(*source);
  Diagnostics diagnostics;
  const TransformChain chain(section.images.augment, {3, -1, -1}, diagnostics);
  REQUIRE(diagnostics.ok());
  Image plain, seen;
  for (const int64_t index : {0, 2, 1, 3}) {  // a JPEG after a smaller PNG
    images.read(index, plain);
    chain.read(images, index, RandomStream(1), seen);
    PixelWindow{10, 40}.apply(plain);
    CHECK(seen.pixels == plain.pixels);
    CHECK(seen.mask == plain.mask);
  }
}

TEST_CASE("rows of a batch have the mask as labels; a pass repeats, with any workers") {
  const Set set;
  const DataSection section =
      set.section("augment: [{random_resized_crop: 24}, {random_crop: {padding: 5}}]\n");
  const auto source = set.open(section);
  BatchInputs inputs = {
      {"images", DType::f32, {3, 24, 24}}, {"labels", DType::i32, {24, 24}}, {"weights", DType::f32, {}}};
  std::vector<std::string> runs;
  for (const int64_t workers : {0, 1, 3}) {
    const TrainingBatches batches{.seed = 9, .order = TrainingOrder(4, 2, true), .micro_batch = 2};
    DataPipeline pipeline(BatchMaker(source->rows({.section = section,
                                                   .split = Split::train,
                                                   .network_shape = {3, 24, 24},
                                                   .inputs = inputs,
                                                   .training = &batches}),
                                     inputs, batches),
                          {.workers = workers});
    std::string run;
    std::set<int32_t> seen;
    for (int step = 0; step < 6; ++step) {
      const Batch& batch = pipeline.next();
      const auto* labels = batch.find<int32_t>("labels");
      seen.insert(labels, labels + 2 * 24 * 24);
      run.append(reinterpret_cast<const char*>(labels), 2 * 24 * 24 * sizeof(int32_t));
    }
    CHECK(seen == std::set<int32_t>{0, 1, 2, 255});
    runs.push_back(run);
  }
  CHECK(runs[0] == runs[1]);
  CHECK(runs[0] == runs[2]);
}

TEST_CASE("masks beside the images, by their suffix; palettes, few bits, interlaced ones; names of classes") {
  const TemporaryFolder folder;
  const std::vector<uint8_t> palette = {0, 0, 0, 255, 0, 0, 0, 255, 0, 9, 9, 9};
  const auto index = [](int y, int x, int) { return (y + x) % 4; };
  for (const char* name : {"a", "b", "c", "d"})
    write_file(folder.path(name + std::string(".png")), colours(9, 11));
  write_file(folder.path("a_mask.png"),
             png(draw(9, 11, 1, index), {.palette = palette, .palette_alpha = {0, 9, 255, 1}}));
  write_file(folder.path("b_mask.png"), png(draw(9, 11, 1, index), {.interlaced = true}));
  write_file(folder.path("c_mask.png"), png(draw(9, 11, 1, index), {.bits = 2}));
  write_file(folder.path("d_mask.png"), png(draw(9, 11, 1, index), {.bits = 4, .palette = palette}));
  write_file(folder.path("names.txt"), "\xEF\xBB\xBFroad\r\ncar\r\nsky\r\nother");
  const DataSection section =
      read_section("format: image_folder\ntrain: " + folder.path("") +
                   "\nmasks: {suffix: _mask.png}\nclass_names: " + folder.path("names.txt"));
  const auto source = open_source(section, {.network_classes = 4});
  CHECK(source->size() == 4);
  CHECK(source->classes() == 4);
  CHECK(source->class_names() == std::vector<std::string>{"road", "car", "sky", "other"});
  CHECK(known_class_names(section) == source->class_names());
  CHECK(peek_source(section, {})->classes == 4);
  Image image;
  for (int64_t i = 0; i < 4; ++i) {
    as_images(*source).read(i, image);
    for (int at = 0; at < 9 * 11; ++at)
      REQUIRE(image.mask[static_cast<size_t>(at)] == (at / 11 + at % 11) % 4);
  }
  for (const auto& [text, problem] :
       {std::pair{"", ": expected a line for each class"},
        std::pair{"a\n\nb", ":2: expected the name of class 1 (data.class_names), found an empty line"},
        std::pair{"a\nb\na\n", ":3: expected the name of class 2 (data.class_names), found 'a' again"}}) {
    write_file(folder.path("names.txt"), text);
    CHECK_THAT(data_error([&] { open_source(section, {.network_classes = 4}); }),
               ContainsSubstring(std::string("names.txt") + problem));
  }
}

TEST_CASE("values of masks may stand for classes; masks within the folder of images are none") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path("masks"));
  write_file(folder.path("a.png"), colours(5, 7));
  write_file(folder.path("masks/a.png"), grey(5, 7, [](int y, int) { return y == 4 ? 9 : y % 2 * 255; }));
  const DataSection section = read_section("format: image_folder\ntrain: " + folder.path("") +
                                           "\nmasks: {dir: " + folder.path("masks") + ", values: [255, 0]}");
  const auto source = open_source(section, {.network_classes = 2, .ignored_label = 9});
  CHECK(source->size() == 1);
  CHECK(source->classes() == 2);
  Image image;
  as_images(*source).read(0, image);
  CHECK(image.mask[0] == 1);
  CHECK(image.mask[7] == 0);
  CHECK(image.mask[28] == 9);
  const SplitStatistics found = measure(as_images(*source), 1);
  CHECK(found.per_class == std::vector<int64_t>{14, 14});
  CHECK(found.ignored_pixels == 7);
}

TEST_CASE("a set is another one if only a mask differs; masks are not packed") {
  const Set set;
  const auto fingerprint = [&] { return set.open(set.section())->fingerprint(); };
  const Fingerprint before = fingerprint();
  CHECK(fingerprint() == before);
  write_file(set.folder.path("masks/a.png"), grey(31, 47, [](int, int) { return 1; }));
  CHECK(fingerprint_difference(before, fingerprint()) == "other contents");
  const auto stored = open_stored(set.section(), {.network_classes = 3});
  CHECK_THAT(data_error([&] { packed(as_images(*stored)); }), ContainsSubstring("no room for data.masks"));
}

}  // namespace
}  // namespace trainer
