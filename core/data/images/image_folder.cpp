// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_folder.h"

#include <fmt/core.h>

#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/formats.h"
#include "core/data/images/decode.h"
#include "core/data/images/folder_listing.h"
#include "core/data/images/image_file.h"
#include "core/data/images/masks.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

class ImageFolderSource final : public ImageSource {
 public:
  explicit ImageFolderSource(const ImageFolders& folders)
      : listing_(folders),
        path_(folders.path),
        max_pixels_(folders.max_pixels),
        is_labelled_(!folders.labels.empty()) {}

  int64_t size() const override { return listing_.size(); }
  Shape sample_shape() const override { return kImageShape; }
  int64_t classes() const override { return static_cast<int64_t>(listing_.classes().size()); }
  int64_t resident_bytes() const override { return listing_.bytes(); }

  void check_labels(const AllowedLabels& allowed) const override {
    if (classes() <= allowed.classes) return;
    throw Error(
        ExitCode::data,
        fmt::format("{}: expected at most {} {}, the network's number of classes, found {}", one_line(path_),
                    allowed.classes, is_labelled_ ? "labels" : "class folders", classes()));
  }

  std::vector<std::string> class_names() const override { return listing_.classes(); }
  std::string sample_file(int64_t index) const override { return listing_.path(index); }
  std::string sample_name(int64_t index) const override { return listing_.name(index); }
  std::optional<int32_t> label_of(int64_t index) const override { return listing_.label(index); }
  std::optional<int32_t> group_of(int64_t index) const override { return listing_.group(index); }
  bool is_encoded() const override { return true; }
  bool has_label_sets() const override { return listing_.has_sets(); }
  std::span<const int32_t> label_set(const Image& image) const override { return listing_.set(image.label); }

  void read_encoded(int64_t index, Image& into) const override {
    const std::string path = listing_.path(index);
    into.label = listing_.label(index);
    try {
      read_image_file(path, into.encoded);
    } catch (const DecodeError& error) {
      throw UnreadableSampleError({path, error.what()});
    }
  }

  void read(int64_t index, Image& into) const override { read_view(index, WholeView(), into); }

  void read_view(int64_t index, const ViewChooser& chooser, Image& into) const override {
    const std::string path = listing_.path(index);
    try {
      read_image_file(path, into.encoded);
      decode_image(into.encoded, chooser, max_pixels_, into);
    } catch (const DecodeError& error) {
      throw UnreadableSampleError({path, error.what()});
    }
    into.label = listing_.label(index);
  }

 private:
  FolderListing listing_;
  std::string path_;
  int64_t max_pixels_;
  bool is_labelled_;
};

}  // namespace

std::unique_ptr<ImageSource> open_image_folder(const ImageFolders& folders) {
  return std::make_unique<ImageFolderSource>(folders);
}

SourceInfo peek_image_folder(const ImageFolders& folders, bool wants_labels) {
  const FolderListing listing(folders);
  SourceInfo info{.size = listing.size(),
                  .shape = kImageShape,
                  .classes = static_cast<int64_t>(listing.classes().size()),
                  .resident_bytes = listing.bytes(),
                  .has_label_sets = listing.has_sets(),
                  .skipped = listing.skipped()};
  for (int64_t i = 0; wants_labels && i < info.size; ++i) {
    if (info.has_label_sets) {
      info.label_sets.add(listing.set(listing.label(i)));
    } else {
      info.labels.push_back(listing.label(i));
    }
    if (const auto group = listing.group(i)) info.groups.push_back(*group);
  }
  return info;
}

namespace {

class ImageFolderFormat final : public DataFormat {
 public:
  void declare(Fields& fields) override {
    fields
        .add("labels", &labels_,
             "of format image_folder: a CSV file of the images' names and labels, with any header, or with a "
             "column of 0 and 1 for each class. It is looked for in the folders of train and val, then at "
             "this "
             "path. null: each sub-folder is a class")
        .left_to_samples();
    masks_.declare(fields);
  }
  void check(InputKind, const OriginOf& origin_of, Diagnostics& diagnostics) const override {
    masks_.check(origin_of, diagnostics);
    if (labels_ && masks_.any())
      diagnostics.error(origin_of("data.labels"), "gives labels, and data.masks too; keep one of the two");
    if (labels_ && labels_->empty())
      diagnostics.error(origin_of("data.labels"), "must be the path of a CSV file, got ''");
    if (split_by_ && !labels_)
      diagnostics.error(origin_of("data.split_by"), "names a column of data.labels, which is not given");
  }
  /// A file in the folder of train is found there from anywhere.
  void settle(const DataSection& section) override {
    if (labels_ && is_within(section.path(Split::train))) labels_->has_base = false;
    split_by_ = section.split_by;
  }
  void use_labels(const std::string& name) override { labels_ = name; }

  std::vector<InputKind> kinds() const override { return {InputKind::pixels}; }
  std::optional<Shape> shape() const override { return kImageShape; }
  bool names_samples() const override { return true; }
  bool gives_label_sets() const override { return labels_.has_value(); }
  bool reads_masks() const override { return masks_.any(); }
  bool takes_groups() const override { return true; }
  std::vector<std::string> mask_folders() const override {
    std::vector<std::string> folders;
    for (const std::optional<FilePath>* dir : {&masks_.dir, &masks_.val_dir}) {
      if (*dir) folders.push_back((*dir)->resolved);
    }
    return folders;
  }
  std::unique_ptr<DataSource> open(const DataSection& section, const SourceRequest& request) const override {
    if (masks_.any())
      return open_masked_images(masks_, section.path(request.split), section.images.max_pixels,
                                in_folder(section, request));
    return open_image_folder(folders(section, request));
  }
  SourceInfo peek(const DataSection& section, const SourceRequest& request) const override {
    if (masks_.any())
      return peek_masked_images(masks_, section.path(request.split), stored_in(section, request.split));
    return peek_image_folder(folders(section, request), request.wants_labels || split_by_);
  }
  std::vector<std::string> files(const std::string& path, Split) const override {
    return labels_ ? std::vector{labels_file(path)} : std::vector<std::string>{};
  }
  std::vector<std::string> class_names(const std::string& path) const override {
    if (masks_.any()) return masks_.names();
    if (labels_)
      return FolderListing({path, kMaxPixels, labels_file(path), split_by_.value_or("")}).classes();
    SkippedFiles ignored;
    return is_flat_folder(path) ? std::vector<std::string>() : class_folders(path, ignored);
  }

 private:
  bool is_within(const std::string& folder) const {
    std::error_code ignored;
    return !folder.empty() && fs::exists(fs::path(folder) / labels_->written, ignored);
  }
  std::string labels_file(const std::string& folder) const {
    return is_within(folder) ? (fs::path(folder) / labels_->written).string() : labels_->resolved;
  }
  ImageFolders folders(const DataSection& section, const SourceRequest& request) const {
    const std::string path = section.path(request.split);
    if (!labels_) return {path, section.images.max_pixels, "", "", request.network_classes == 0};
    std::string file = labels_file(path);
    std::error_code ignored;
    if (!fs::exists(file, ignored))
      throw Error(ExitCode::data,
                  fmt::format("data.labels: there is no file {} in {}, and no file {}",
                              one_line(labels_->written), one_line(path), one_line(with_base(*labels_))));
    return {path, section.images.max_pixels, std::move(file), split_by_.value_or("")};
  }
  /// The request for the split in whose folder the samples are.
  static SourceRequest in_folder(const DataSection& section, SourceRequest request) {
    request.split = stored_in(section, request.split);
    return request;
  }

  std::optional<FilePath> labels_;
  std::optional<std::string> split_by_;  ///< of the section
  MaskKeys masks_;
};

}  // namespace

Registered<DataFormat> image_folder_format() {
  return {"image_folder",
          "a folder with a sub-folder of image files (JPEG, PNG, WebP, BMP, GIF, TIFF, AVIF, JPEG 2000) for "
          "each class or, with masks, of any image files",
          [] { return std::make_unique<ImageFolderFormat>(); }};
}

}  // namespace trainer
