// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/base/directory.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/formats.h"
#include "core/data/images/decode.h"
#include "core/data/images/image_file.h"
#include "core/data/images/image_files.h"
#include "core/data/images/label_file.h"
#include "core/data/images/masks.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// The sub-folders of a folder, sorted. Adds the files beside them to `skipped`.
std::vector<std::string> class_names(const std::string& folder, SkippedFiles& skipped) {
  if (!fs::is_directory(folder))
    throw Error(ExitCode::data, one_line(folder) + ": expected a folder, found a file");
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : directory_entries(folder)) {
    if (is_hidden_name(entry.path())) continue;
    if (entry.is_directory()) {
      names.push_back(entry.path().filename().string());
    } else if (is_image_name(entry.path())) {
      skipped.add("outside the class folders");
    } else {
      skipped.add_file(entry.path());
    }
  }
  if (names.empty()) {
    throw Error(
        ExitCode::data,
        one_line(folder) +
            ": expected a folder for each class, found none; or name a CSV file of labels with data.labels");
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Paths of all samples. A million of them are kept in one text, as each would otherwise cost two
/// allocations.
class Listing {
 public:
  explicit Listing(const ImageFolders& folders) : root_(folders.path) {
    if (folders.labels.empty()) {
      add_folders();
    } else {
      add_rows((fs::path(root_) / folders.labels).string());
    }
    text_.shrink_to_fit();
    end_.shrink_to_fit();
  }

  int64_t size() const { return static_cast<int64_t>(end_.size()); }
  const std::vector<std::string>& classes() const { return classes_; }
  const SkippedFiles& skipped() const { return skipped_; }

  bool has_sets() const { return !set_end_.empty(); }
  /// Of sets the sample's own number.
  int32_t label(int64_t index) const {
    if (has_sets()) return static_cast<int32_t>(index);
    if (!labels_.empty()) return labels_[static_cast<size_t>(index)];
    const auto after = std::upper_bound(class_begin_.begin(), class_begin_.end(), index);
    return static_cast<int32_t>(after - class_begin_.begin()) - 1;
  }

  std::span<const int32_t> set(int64_t index) const {
    const auto i = static_cast<size_t>(index);
    const size_t begin = i == 0 ? 0 : set_end_[i - 1];
    return std::span(sets_).subspan(begin, set_end_[i] - begin);
  }

  /// Below the folder of all.
  std::string name(int64_t index) const {
    const auto i = static_cast<size_t>(index);
    const size_t begin = i == 0 ? 0 : end_[i - 1];
    const std::string text = text_.substr(begin, end_[i] - begin);
    return labels_.empty() && !has_sets() ? classes_[static_cast<size_t>(label(index))] + "/" + text : text;
  }
  std::string path(int64_t index) const { return (fs::path(root_) / name(index)).string(); }

  int64_t bytes() const {
    return static_cast<int64_t>(text_.capacity() + end_.capacity() * sizeof(size_t) +
                                (labels_.capacity() + sets_.capacity()) * sizeof(int32_t) +
                                set_end_.capacity() * sizeof(size_t));
  }

 private:
  void add_folders() {
    classes_ = class_names(root_, skipped_);
    for (const std::string& name : classes_) {
      class_begin_.push_back(size());
      SkippedFiles skipped;
      add_class(fs::path(root_) / name, skipped);
      if (size() == class_begin_.back()) throw no_images(fs::path(root_) / name, skipped);
      for (const auto& [type, count] : skipped.by_type()) skipped_.add(type, count);
    }
  }

  void add_rows(const std::string& file) {
    if (!fs::is_directory(root_))
      throw Error(ExitCode::data, one_line(root_) + ": expected a folder, found a file");
    const std::vector<std::string> images = images_below(root_, skipped_);
    LabelFile rows = read_label_file(file, root_, images);
    for (const size_t image : rows.image) add(images[image]);
    skipped_.add("images without a label", static_cast<int64_t>(images.size() - rows.image.size()));
    classes_ = std::move(rows.classes);
    labels_ = std::move(rows.label);
    set_end_ = std::move(rows.set_end);
    sets_ = std::move(rows.sets);
    for (auto* numbers : {&labels_, &sets_}) numbers->shrink_to_fit();
    set_end_.shrink_to_fit();
  }

  void add_class(const fs::path& folder, SkippedFiles& skipped) {
    for (const std::string& name : images_below(folder, skipped)) add(name);
  }

  void add(const std::string& name) {
    text_ += name;
    end_.push_back(text_.size());
  }

  std::string root_;
  SkippedFiles skipped_;
  std::vector<std::string> classes_;
  std::vector<int64_t> class_begin_;  // number of each class's first sample
  std::vector<int32_t> labels_;       // of all samples, if a file gives them
  std::vector<size_t> set_end_;       // of each sample's classes in sets_, if a file gives sets of them
  std::vector<int32_t> sets_;
  std::string text_;  // names below the class's folder or, with labels, below the root, one after another
  std::vector<size_t> end_;  // of each name
};

/// The system's own errors name the path already.
template <class Act>
auto listing(const Act& act) try {
  return act();
} catch (const fs::filesystem_error& error) {
  throw Error(ExitCode::io, fmt::format("{}: cannot be listed: {}", one_line(error.path1().string()),
                                        error.code().message()));
}

Listing list_files(const ImageFolders& folders) {
  return listing([&] { return Listing(folders); });
}

class ImageFolderSource final : public ImageSource {
 public:
  explicit ImageFolderSource(const ImageFolders& folders)
      : listing_(list_files(folders)),
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
  Listing listing_;
  std::string path_;
  int64_t max_pixels_;
  bool is_labelled_;
};

}  // namespace

std::unique_ptr<ImageSource> open_image_folder(const ImageFolders& folders) {
  return std::make_unique<ImageFolderSource>(folders);
}

SourceInfo peek_image_folder(const ImageFolders& folders) {
  const Listing listing = list_files(folders);
  return SourceInfo{.size = listing.size(),
                    .shape = kImageShape,
                    .classes = static_cast<int64_t>(listing.classes().size()),
                    .resident_bytes = listing.bytes(),
                    .has_label_sets = listing.has_sets(),
                    .skipped = listing.skipped()};
}

namespace {

class ImageFolderFormat final : public DataFormat {
 public:
  void declare(Fields& fields) override {
    fields.add(
        "labels", &labels_,
        "of format image_folder: name of a CSV file in each of train and val. Its header is file,label "
        "or, for several labels, file and each class, with 0 or 1 below. null: each sub-folder is a "
        "class");
    masks_.declare(fields);
  }
  void check(const OriginOf& origin_of, Diagnostics& diagnostics) const override {
    masks_.check(origin_of, diagnostics);
    if (labels_ && masks_.any())
      diagnostics.error(origin_of("data.labels"), "gives labels, and data.masks too; keep one of the two");
    if (!labels_ || (!labels_->empty() && labels_->front() != '/')) return;
    diagnostics.error(
        origin_of("data.labels"),
        fmt::format("must be the name of a CSV file in data.train's folder, got '{}'", *labels_));
  }

  std::vector<InputKind> kinds() const override { return {InputKind::pixels}; }
  std::optional<Shape> shape() const override { return kImageShape; }
  bool gives_label_sets() const override { return labels_.has_value(); }
  bool reads_masks() const override { return masks_.any(); }
  std::unique_ptr<DataSource> open(const DataSection& section, const SourceRequest& request) const override {
    if (masks_.any())
      return open_masked_images(masks_, section.path(request.split), section.images.max_pixels,
                                in_folder(section, request));
    return open_image_folder(folders(section, request));
  }
  SourceInfo peek(const DataSection& section, const SourceRequest& request) const override {
    if (masks_.any())
      return peek_masked_images(masks_, section.path(request.split), stored_in(section, request.split));
    return peek_image_folder(folders(section, request));
  }
  std::vector<std::string> files(const std::string& path, Split) const override {
    return labels_ ? std::vector{path + "/" + *labels_} : std::vector<std::string>{};
  }
  std::vector<std::string> class_names(const std::string& path) const override {
    if (masks_.any()) return masks_.names();
    if (labels_) return list_files({path, kMaxPixels, *labels_}).classes();
    SkippedFiles ignored;
    return listing([&] { return trainer::class_names(path, ignored); });
  }

 private:
  ImageFolders folders(const DataSection& section, const SourceRequest& request) const {
    return {section.path(request.split), section.images.max_pixels, labels_.value_or("")};
  }
  /// The request for the split in whose folder the samples are.
  static SourceRequest in_folder(const DataSection& section, SourceRequest request) {
    request.split = stored_in(section, request.split);
    return request;
  }

  std::optional<std::string> labels_;  // a CSV file below each of train and val
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
