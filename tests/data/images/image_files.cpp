// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_files.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include "tests/catch.h"

#include "core/data/images/decode.h"
#include "core/data/images/transforms/table.h"
#include "tests/data/images/images.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

void put(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  write_file(path, bytes);
}

std::string grey(int value, int height = 6, int width = 5) {
  return png(draw(height, width, 1, [value](int, int, int) { return value; }));
}

std::string reason_of(const ImageSource& source, int64_t index) {
  Image image;
  try {
    source.read(index, image);
  } catch (const UnreadableSampleError& error) {
    CHECK(error.sample().name == source.sample_file(index));
    return error.sample().reason;
  }
  return "";
}

TEST_CASE("files stay in their order, folders stand for the images below them, sorted") {
  const TemporaryFolder folder;
  const std::string root = folder.path("set");
  for (const char* name : {"/b.png", "/a/z.JPEG", "/a/y.jpg", "/.hidden/x.png", "/.x.png", "/notes.txt"})
    put(root + name, grey(1));
  CHECK(image_files({"missing.png", root, root + "/notes.txt"}) ==
        std::vector<std::string>{"missing.png", root + "/a/y.jpg", root + "/a/z.JPEG", root + "/b.png",
                                 root + "/notes.txt"});
  fs::create_directory(folder.path("empty"));
  CHECK_THAT(data_error([&] { image_files({folder.path("empty")}); }), ContainsSubstring("found none"));
}

TEST_CASE("colour becomes brightness for a network of one channel, grey stays as it is") {
  const TemporaryFolder folder;
  const std::string colour = folder.path("colour.png"), dark = folder.path("grey.png");
  const Drawing drawing = landscape(6, 5);
  put(colour, png(drawing));
  put(dark, grey(77));
  const auto one = open_image_files({colour, dark}, {1, -1, -1}, kMaxPixels);
  Image image;
  one->read(0, image);
  REQUIRE(image.channels == 1);
  REQUIRE(image.pixels.size() == 30);
  for (size_t i = 0; i < 30; ++i) {
    const uint8_t* rgb = drawing.values.data() + 3 * i;
    CHECK(std::abs(image.pixels[i] - (0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2])) <= 0.51);
  }
  one->read(1, image);
  CHECK(image.pixels == std::vector<uint8_t>(30, 77));
  const auto three = open_image_files({colour, dark}, {3, -1, -1}, kMaxPixels);
  three->read(1, image);
  CHECK(image.pixels == std::vector<uint8_t>(90, 77));
}

TEST_CASE("images of one size are demanded where the shape is fixed") {
  const TemporaryFolder folder;
  const std::string small = folder.path("small.png"), large = folder.path("large.png");
  put(small, grey(1));
  put(large, grey(1, 12, 10));
  const auto source = open_image_files({small, large, folder.path("no.png")}, {1, 6, 5}, kMaxPixels);
  CHECK(reason_of(*source, 0).empty());
  CHECK(reason_of(*source, 1) == "expected 5x6 pixels, found 10x12; begin data.eval_transform with resize");
  CHECK_THAT(reason_of(*source, 2), ContainsSubstring("No such file"));
}

TEST_CASE("where somebody is told, unreadable samples become empty rows and the others stay as they are") {
  const TemporaryFolder folder;
  std::vector<std::string> files;
  for (int i = 0; i < 7; ++i) {
    files.push_back(folder.path(std::to_string(i) + ".png"));
    put(files.back(), i % 3 == 1 ? std::string("broken") : grey(10 * (i + 1)));
  }
  const auto source = open_image_files(files, {1, 6, 5}, kMaxPixels);
  const TransformList none;
  for (const int64_t workers : {0, 2}) {
    std::mutex mutex;
    std::vector<int64_t> told;
    const auto tell = [&](int64_t index, const UnreadableSample& sample) {
      const std::lock_guard lock(mutex);
      CHECK(sample.name == files[static_cast<size_t>(index)]);
      told.push_back(index);
    };
    DataPipeline pipeline(image_batches(*source, make_chain(none, {1, 6, 5}), EvaluationBatches{7, 4, tell}),
                          {.workers = workers});
    for (int64_t batch = 0; batch < 2; ++batch) {
      const Batch& rows = pipeline.next();
      CHECK(rows.real == (batch == 0 ? 4 : 3));
      for (int64_t row = 0; row < 4; ++row) {
        const int64_t index = 4 * batch + row;
        const bool is_there = index < 7 && index % 3 != 1;
        CHECK(weights_of(rows)[row] == (is_there ? 1.0f : 0.0f));
        const float value = is_there ? static_cast<float>(10 * (index + 1)) / 255 : 0;
        for (int64_t i = 0; i < 30; ++i) CHECK(images_of(rows)[row * 30 + i] == Approx(value).epsilon(1e-6));
      }
    }
    std::sort(told.begin(), told.end());
    CHECK(told == std::vector<int64_t>{1, 4});
    DataPipeline untold(image_batches(*source, make_chain(none, {1, 6, 5}), EvaluationBatches{7, 4}),
                        {.workers = workers});
    CHECK_THROWS_AS(untold.next(), UnreadableSampleError);
  }
}

}  // namespace
}  // namespace trainer
