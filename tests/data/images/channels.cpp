// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/channels.h"

#include "core/data/images/transform.h"
#include "tests/catch.h"
#include "tests/data/samples.h"

namespace trainer {

TEST_CASE("grey images become RGB and the reverse, before the first transform") {
  const CountingSource grey(9, {1, 3, 4}), colour(9, {3, 3, 4});
  TransformList list;
  list.push_back(make_transform("center_crop"));
  set(*list[0], "size", int64_t{3});
  for (const bool crops : {false, true}) {
    INFO(crops);
    const TransformList none;
    const TransformList& steps = crops ? list : none;
    Diagnostics diagnostics;
    const TransformChain to_rgb(steps, grey.sample_shape(), 3, diagnostics),
        to_grey(steps, colour.sample_shape(), 1, diagnostics),
        as_it_is(steps, grey.sample_shape(), 1, diagnostics), impossible(steps, {4, 3, 4}, 3, diagnostics);
    CHECK(diagnostics.ok());
    CHECK(impossible.output_shape()[0] == 4);
    CHECK(to_rgb.output_shape() == Shape{3, 3, crops ? 3 : 4});
    CHECK(to_grey.output_shape() == Shape{1, 3, crops ? 3 : 4});
    Image rgb = to_rgb.make_image(), plain = as_it_is.make_image();
    to_rgb.read(grey, 5, RandomStream(1, 0, 0), rgb);
    as_it_is.read(grey, 5, RandomStream(1, 0, 0), plain);
    const size_t area = plain.pixels.size();
    REQUIRE(rgb.pixels.size() == 3 * area);
    for (size_t i = 0; i < rgb.pixels.size(); ++i) CHECK(rgb.pixels[i] == plain.pixels[i % area]);
    Image made = to_grey.make_image();
    const uint8_t* room = made.pixels.data();
    to_grey.read(colour, 5, RandomStream(1, 0, 0), made);
    CHECK(made.pixels.size() == area);
    if (!crops) CHECK(made.pixels.data() == room);  // nothing was allocated
  }
}

TEST_CASE("grey has Pillow's weights, and grey made colour made grey is unchanged") {
  Image image;
  image.resize(3, 1, 4);
  image.pixels = {255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255};
  convert_channels(image, 1);
  CHECK(image.pixels == std::vector<uint8_t>{76, 150, 29, 255});  // of Image.convert("L")
  const std::vector<uint8_t> before = image.pixels;
  convert_channels(image, 3);
  convert_channels(image, 1);
  CHECK(image.pixels == before);
  CHECK_FALSE(can_convert_channels(2, 3));
}

}  // namespace trainer
