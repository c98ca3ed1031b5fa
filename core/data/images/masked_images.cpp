// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "core/base/printable.h"
#include "core/data/images/decode.h"
#include "core/data/images/decode_png.h"
#include "core/data/images/image_file.h"
#include "core/data/images/image_files.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/masks.h"
#include "core/data/images/resample.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// The folder of a split's masks; that of the images if they are beside them.
std::string mask_folder(const MaskKeys& keys, const std::string& images, Split split) {
  const std::optional<FilePath>& given = split == Split::val && keys.val_dir ? keys.val_dir : keys.dir;
  if (!given) return images;
  if (fs::is_directory(given->resolved)) return given->resolved;
  throw Error(ExitCode::data,
              fmt::format("{} (data.masks): expected a folder of masks, found {}", one_line(given->resolved),
                          fs::exists(given->resolved) ? "a file" : "none"));
}

/// Takes masks out of a list of images, if they are below the same folder.
void take_out_masks(std::vector<std::string>& names, const std::string& images, const std::string& masks,
                    const std::string& suffix) {
  const std::string below =
      fs::weakly_canonical(masks).lexically_relative(fs::weakly_canonical(images)).string();
  if (below.starts_with("..")) return;
  const auto is_mask = [&](const std::string& name) {
    return below == "." ? name.ends_with(suffix) : name.starts_with(below + "/");
  };
  std::erase_if(names, is_mask);
}

/// The images of a split, by their paths below its folder.
struct Listed {
  Listed(const MaskKeys& keys, const std::string& images, Split split) try {
    if (!fs::is_directory(images))
      throw Error(ExitCode::data, one_line(images) + ": expected a folder of images, found a file");
    masks = mask_folder(keys, images, split);
    names = images_below(images, skipped);
    take_out_masks(names, images, masks, keys.ending());
    if (names.empty()) throw no_images(images, skipped);
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::io, fmt::format("{}: cannot be listed: {}", one_line(error.path1().string()),
                                          error.code().message()));
  }

  int64_t bytes() const {
    size_t sum = names.capacity() * sizeof(std::string);
    for (const std::string& name : names) sum += name.capacity();
    return static_cast<int64_t>(sum);
  }

  std::string masks;  // folder
  std::vector<std::string> names;
  SkippedFiles skipped;
};

/// Keeps the answer of another one, and what it was for.
class KeptView final : public ViewChooser {
 public:
  explicit KeptView(const ViewChooser& chooser) : chooser_(chooser) {}
  View choose(int64_t image_height, int64_t image_width) const override {
    height = image_height, width = image_width;
    return view = chooser_.choose(height, width);
  }
  const PixelWindow* pixel_window() const override { return chooser_.pixel_window(); }

  mutable int64_t height = 0, width = 0;
  mutable View view{};

 private:
  const ViewChooser& chooser_;
};

class MaskedImages final : public ImageSource {
 public:
  MaskedImages(const MaskKeys& keys, const std::string& folder, int64_t max_pixels,
               const SourceRequest& request)
      : listed_(keys, folder, request.split),
        folder_(folder),
        suffix_(keys.ending()),
        class_names_(keys.names()),
        values_(keys.values, request.network_classes, request.ignored_label),
        classes_(!class_names_.empty()         ? static_cast<int64_t>(class_names_.size())
                 : !keys.values.empty()        ? static_cast<int64_t>(keys.values.size())
                 : request.network_classes > 0 ? request.network_classes
                                               : kMostMaskClasses),
        max_pixels_(max_pixels) {}

  int64_t size() const override { return static_cast<int64_t>(listed_.names.size()); }
  Shape sample_shape() const override { return kImageShape; }
  int64_t classes() const override { return classes_; }
  int64_t resident_bytes() const override { return listed_.bytes(); }
  void check_labels(const AllowedLabels&) const override {}  // values are checked as masks are read
  std::vector<std::string> class_names() const override { return class_names_; }
  std::string sample_name(int64_t index) const override { return listed_.names[static_cast<size_t>(index)]; }
  std::string sample_file(int64_t index) const override {
    return (fs::path(folder_) / sample_name(index)).string();
  }
  bool is_encoded() const override { return true; }
  std::optional<uint8_t> ignored_pixel() const override { return values_.ignored(); }

  void read_encoded(int64_t index, Image& into) const override {
    into.label = 0;
    read_file(sample_file(index), "", into.encoded);
  }
  void read_encoded_mask(int64_t index, Image& into) const override {
    read_file(mask_file(index), mask_of(index), into.encoded);
  }

  void read(int64_t index, Image& into) const override { read_view(index, WholeView(), into); }

  void read_view(int64_t index, const ViewChooser& chooser, Image& into) const override {
    const KeptView kept(chooser);
    read_encoded(index, into);
    try {
      decode_image(into.encoded, kept, max_pixels_, into);
    } catch (const DecodeError& error) {
      throw UnreadableSampleError({sample_file(index), error.what()});
    }
    read_mask(index, kept, into);
  }

  void map_labels(const Image& image, int32_t* map) const override {
    std::copy(image.mask.begin(), image.mask.end(), map);
  }

 private:
  std::string mask_file(int64_t index) const {
    const std::string name = sample_name(index);
    const size_t ending = fs::path(name).extension().string().size();
    return (fs::path(listed_.masks) / (name.substr(0, name.size() - ending) + suffix_)).string();
  }
  std::string mask_of(int64_t index) const {
    return fmt::format("the mask of {}: ", one_line(sample_file(index)));
  }

  static void read_file(const std::string& path, const std::string& role, std::vector<uint8_t>& bytes) {
    try {
      read_image_file(path, bytes);
    } catch (const DecodeError& error) {
      throw UnreadableSampleError({path, role + error.what()});
    }
  }

  /// The whole mask is checked, whatever the view, so that a wrong one is found in the first epoch.
  void read_mask(int64_t index, const KeptView& kept, Image& into) const {
    read_encoded_mask(index, into);
    try {
      decode_png_values(into.encoded, kept.height, kept.width, into.spare_mask);
      values_.to_classes(into.spare_mask, kept.width);
    } catch (const DecodeError& error) {
      throw UnreadableSampleError({mask_file(index), mask_of(index) + error.what()});
    }
    resample_mask(into.spare_mask, kept.width, kept.view, into.mask);
    into.mask_padding = values_.ignored();
  }

  Listed listed_;
  std::string folder_, suffix_;
  std::vector<std::string> class_names_;
  MaskValues values_;
  int64_t classes_, max_pixels_;
};

}  // namespace

std::unique_ptr<ImageSource> open_masked_images(const MaskKeys& keys, const std::string& folder,
                                                int64_t max_pixels, const SourceRequest& request) {
  return std::make_unique<MaskedImages>(keys, folder, max_pixels, request);
}

SourceInfo peek_masked_images(const MaskKeys& keys, const std::string& folder, Split split) {
  const Listed listed(keys, folder, split);
  SourceInfo info{.size = static_cast<int64_t>(listed.names.size()),
                  .shape = kImageShape,
                  .resident_bytes = listed.bytes(),
                  .skipped = listed.skipped};
  const std::vector<std::string> names = keys.names();
  const size_t classes = names.empty() ? keys.values.size() : names.size();
  if (classes > 0) info.classes = static_cast<int64_t>(classes);
  return info;
}

}  // namespace trainer
