// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "core/base/directory.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/images/channels.h"
#include "core/data/images/decode.h"
#include "core/data/images/decode_avif.h"
#include "core/data/images/decode_gif.h"
#include "core/data/images/decode_jpeg2000.h"
#include "core/data/images/decode_tiff.h"
#include "core/data/images/image_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// An ending of images, and the library without which they are not read.
struct ImageEnding {
  std::string_view ending;
  bool (*is_read)() = [] { return true; };
  const char* library = "";
};

constexpr std::array<ImageEnding, 13> kImageEndings = {{
    {".jpg"},
    {".jpeg"},
    {".png"},
    {".webp"},
    {".bmp"},
    {".gif", reads_gif, "giflib"},
    {".tif", reads_tiff, "libtiff"},
    {".tiff", reads_tiff, "libtiff"},
    {".avif", reads_avif, "libavif"},
    {".jp2", reads_jpeg2000, "OpenJPEG"},
    {".j2k", reads_jpeg2000, "OpenJPEG"},
    {".jpf", reads_jpeg2000, "OpenJPEG"},
    {".jpx", reads_jpeg2000, "OpenJPEG"},
}};

/// The row of a name's ending; null if it is no image's.
const ImageEnding* find_ending(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto found = std::ranges::find(kImageEndings, ending, &ImageEnding::ending);
  return found == kImageEndings.end() ? nullptr : &*found;
}

void skip(const fs::path& path, SkippedFiles& skipped) {
  if (const ImageEnding* row = find_ending(path)) {
    skipped.add(fmt::format("{} (built without {})", row->ending, row->library));
  } else {
    skipped.add_file(path);
  }
}

/// A view of images of one size.
class ExactSize final : public ViewChooser {
 public:
  ExactSize(const Shape& shape, const ViewChooser& chooser) : shape_(shape), chooser_(chooser) {}
  View choose(int64_t height, int64_t width) const override {
    if (height != shape_[1] || width != shape_[2]) {
      throw DecodeError(
          fmt::format("expected {}x{} pixels, found {}x{}; begin data.eval_transform with resize", shape_[2],
                      shape_[1], width, height));
    }
    return chooser_.choose(height, width);
  }
  const PixelWindow* pixel_window() const override { return chooser_.pixel_window(); }

 private:
  const Shape& shape_;
  const ViewChooser& chooser_;
};

class ImageFilesSource final : public ArrivingImageFiles {
 public:
  ImageFilesSource(std::vector<std::string> files, const Shape& shape, int64_t max_pixels)
      : files_(std::move(files)), shape_(shape), max_pixels_(max_pixels) {}

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  Shape sample_shape() const override { return shape_; }
  int64_t classes() const override { return 1; }
  int64_t resident_bytes() const override { return 0; }
  void check_labels(const AllowedLabels&) const override {}
  bool has_label_sets() const override { return true; }  // which are unknown: none
  std::span<const int32_t> label_set(const Image&) const override { return {}; }
  std::string sample_file(int64_t index) const override { return files_[static_cast<size_t>(index)]; }
  void replace(std::vector<std::string> files) override { files_ = std::move(files); }

  void read(int64_t index, Image& into) const override { read_view(index, WholeView(), into); }

  void read_view(int64_t index, const ViewChooser& chooser, Image& into) const override {
    const std::string path = sample_file(index);
    try {
      // The system would open the file that the part before it names.
      if (path.find('\0') != std::string::npos) throw DecodeError("cannot be read: the path has a zero byte");
      read_image_file(path, into.encoded);
      const ExactSize exact(shape_, chooser);
      decode_image(into.encoded, is_fixed(shape_) ? exact : chooser, max_pixels_, into);
    } catch (const DecodeError& error) {
      throw UnreadableSampleError({path, error.what()});
    }
    convert_channels(into, shape_[0]);
    into.label = 0;
  }

 private:
  std::vector<std::string> files_;
  Shape shape_;
  int64_t max_pixels_;
};

}  // namespace

bool is_hidden_name(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

bool is_image_name(const fs::path& path) {
  const ImageEnding* row = find_ending(path);
  return row != nullptr && row->is_read();
}

std::string image_endings() {
  std::vector<std::string_view> read;
  for (const ImageEnding& row : kImageEndings) {
    if (row.is_read()) read.push_back(row.ending);
  }
  const std::string_view last = read.back();
  read.pop_back();
  return fmt::format("{} or {}", fmt::join(read, ", "), last);
}

std::vector<std::string> images_below(const fs::path& folder, SkippedFiles& skipped) {
  std::vector<std::string> names;
  std::vector<fs::path> folders = {folder};
  while (!folders.empty()) {
    const fs::path next = std::move(folders.back());
    folders.pop_back();
    for (const DirectoryEntry& entry : directory_entries(next)) {
      if (is_hidden_name(entry.path())) continue;
      if (!entry.is_directory()) {
        if (is_image_name(entry.path())) {
          names.push_back(entry.path().lexically_relative(folder).string());
        } else {
          skip(entry.path(), skipped);
        }
      } else if (!entry.is_symlink()) {
        folders.push_back(entry.path());
      } else {
        skipped.add("links to folders");
      }
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Error no_images(const fs::path& folder, const SkippedFiles& skipped) {
  const std::string others = skipped.text();
  return {ExitCode::data, fmt::format("{}: expected {} files, found none{}", one_line(folder.string()),
                                      image_endings(), others.empty() ? "" : fmt::format(" ({})", others))};
}

std::vector<std::string> image_files(const std::vector<std::string>& words) {
  std::vector<std::string> files;
  for (const std::string& word : words) {
    std::error_code ignored;
    if (!fs::is_directory(word, ignored)) {
      files.push_back(word);
      continue;
    }
    try {
      SkippedFiles skipped;
      const std::vector<std::string> names = images_below(word, skipped);
      if (names.empty()) throw no_images(word, skipped);
      for (const std::string& name : names) files.push_back((fs::path(word) / name).string());
    } catch (const fs::filesystem_error& error) {
      throw Error(ExitCode::io,
                  fmt::format("{}: cannot be listed: {}", one_line(word), error.code().message()));
    }
  }
  return files;
}

std::unique_ptr<ImageSource> open_image_files(std::vector<std::string> files, const Shape& shape,
                                              int64_t max_pixels) {
  return std::make_unique<ImageFilesSource>(std::move(files), shape, max_pixels);
}

std::unique_ptr<ArrivingImageFiles> open_arriving_files(const Shape& shape, int64_t max_pixels) {
  return std::make_unique<ImageFilesSource>(std::vector<std::string>(), shape, max_pixels);
}

}  // namespace trainer
