// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/files.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/base/error.h"

namespace trainer {
namespace {

const std::string& folder() {
  static const std::string name = [] {
    std::string pattern = (std::filesystem::temp_directory_path() / "trainer-fuzz-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    return pattern;
  }();
  return name;
}

void check(const ImageSource& source, const Image& image) {
  if (image.label < 0 || image.label >= source.classes()) std::abort();
  const Shape shape{image.channels, image.height, image.width};
  if (static_cast<int64_t>(image.pixels.size()) != numel(shape)) std::abort();
  if (is_fixed(source.sample_shape()) && shape != source.sample_shape()) std::abort();
}

}  // namespace

std::string put_file(const std::string& name, std::span<const uint8_t> bytes) {
  std::string path = folder() + "/" + name;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (file == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) std::abort();
  return path;
}

void read_or_refuse(const std::function<std::unique_ptr<ImageSource>()>& open) {
  try {
    const auto source = open();
    Image image;
    for (int64_t i = 0; i < source->size(); ++i) {
      try {
        source->read(i, image);
      } catch (const UnreadableSampleError&) {
        continue;
      }
      check(*source, image);
    }
    source->check_labels({2});
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
  }
}

}  // namespace trainer
