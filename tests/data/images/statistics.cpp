// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/statistics.h"

#include <cmath>
#include <filesystem>
#include "tests/catch.h"

#include "core/data/images/decode.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/synthetic.h"
#include "tests/data/images/images.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

TEST_CASE("statistics of a split are those of all its pixels, for any number of threads") {
  const auto source = make_synthetic(5, Split::train, 37, {3, 6, 4}, 5);
  std::vector<int64_t> per_class(5);
  std::vector<std::vector<double>> values(3);
  Image image;
  for (int64_t i = 0; i < 37; ++i) {
    source->read(i, image);
    ++per_class[static_cast<size_t>(image.label)];
    for (size_t p = 0; p < image.pixels.size(); ++p) values[p / 24].push_back(image.pixels[p] / 255.0);
  }
  for (int64_t threads : {1, 2, 5, 64}) {
    const SplitStatistics found = measure(*source, threads);
    CHECK(found.samples == 37);
    CHECK(found.per_class == per_class);
    CHECK(found.height.least == 6);
    CHECK(found.height.most == 6);
    CHECK(found.width.median == 4);
    CHECK(found.unreadable.empty());
    REQUIRE(found.mean.size() == 3);
    for (size_t c = 0; c < 3; ++c) {
      double mean = 0, squares = 0;
      for (double x : values[c]) mean += x / static_cast<double>(values[c].size());
      for (double x : values[c]) squares += (x - mean) * (x - mean) / static_cast<double>(values[c].size());
      CHECK(found.mean[c] == Approx(mean).epsilon(1e-10));
      CHECK(found.deviation[c] == Approx(std::sqrt(squares)).epsilon(1e-10));
    }
  }
}

TEST_CASE("statistics of images of several sizes, some of them unreadable") {
  const TemporaryFolder folder;
  for (const char* name : {"ant", "bee", "cow"}) std::filesystem::create_directories(folder.path(name));
  const auto grey = [](int height, int width, int value) {
    return png(draw(height, width, 1, [value](int, int, int) { return value; }));
  };
  write_file(folder.path("ant/1.png"), grey(10, 3, 51));
  write_file(folder.path("ant/2.png"), grey(2, 15, 51));
  write_file(folder.path("bee/1.png"), grey(6, 10, 153));
  write_file(folder.path("bee/2.png"), "text");
  write_file(folder.path("cow/1.png"), "");
  const SplitStatistics found = measure(*open_image_folder({folder.path(""), kMaxPixels}), 2);
  CHECK(found.samples == 5);
  CHECK(found.per_class == std::vector<int64_t>{2, 1, 0});
  CHECK(found.class_names == std::vector<std::string>{"ant", "bee", "cow"});
  CHECK(found.height.least == 2);
  CHECK(found.height.median == 6);
  CHECK(found.height.most == 10);
  CHECK(found.width.least == 3);
  CHECK(found.width.median == 10);
  CHECK(found.width.most == 15);
  REQUIRE(found.mean.size() == 3);
  for (size_t c = 0; c < 3; ++c) {
    CHECK(found.mean[c] == Approx(0.4));  // half of the pixels are 0.2, half 0.6
    CHECK(found.deviation[c] == Approx(0.2));
  }
  REQUIRE(found.unreadable.size() == 2);
  CHECK(found.unreadable[0].name == folder.path("bee/2.png"));
  CHECK(!found.unreadable[0].reason.empty());
  CHECK(found.unreadable[1].name == folder.path("cow/1.png"));
}

}  // namespace
}  // namespace trainer
