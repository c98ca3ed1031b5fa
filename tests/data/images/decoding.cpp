// SPDX-License-Identifier: Apache-2.0
#include "tests/data/images/decoding.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include "tests/catch.h"

namespace trainer {

View cut(int64_t top, int64_t left, int64_t height, int64_t width) {
  return {{static_cast<double>(top), static_cast<double>(height), top, top + height, height},
          {static_cast<double>(left), static_cast<double>(width), left, left + width, width}};
}

std::string stored_image(const std::string& name) {
  std::ifstream file(kStoredImages + name, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string with_number(std::string file, size_t at, const std::vector<uint8_t>& bytes) {
  std::copy(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(at));
  return file;
}

Image decoded(const std::string& file, const ViewChooser& chooser, int64_t max_pixels) {
  // A copy of the exact size, so that sanitizers detect reads beyond it.
  const std::vector<uint8_t> bytes(file.begin(), file.end());
  Image image;
  decode_image(bytes, chooser, max_pixels, image);
  CHECK(image.channels == 3);
  CHECK(image.pixels.size() == static_cast<size_t>(3 * image.height * image.width));
  return image;
}

std::string decode_error(const std::string& file, const ViewChooser& chooser, int64_t max_pixels) {
  const std::vector<uint8_t> bytes(file.begin(), file.end());
  try {
    Image image;
    decode_image(bytes, chooser, max_pixels, image);
  } catch (const DecodeError& error) {
    return error.what();
  }
  FAIL("a damaged image of " << file.size() << " bytes was read");
  return {};
}

int greatest_difference(const Image& a, const Image& b) {
  REQUIRE(a.height == b.height);
  REQUIRE(a.width == b.width);
  int most = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) most = std::max(most, std::abs(a.pixels[i] - b.pixels[i]));
  return most;
}

}  // namespace trainer
