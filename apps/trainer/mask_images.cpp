// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/mask_images.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "core/base/printable.h"
#include "core/data/images/encode_png.h"
#include "core/data/images/pixel_classes.h"
#include "core/recipe/recipe.h"
#include "core/storage/atomic_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

TransformChain chain_of(const RunSpec& run, const ImageSource& source) {
  Diagnostics diagnostics;
  TransformChain chain(run.recipe().data.images.eval_transform, source.sample_shape(), diagnostics);
  diagnostics.throw_if_any();
  return chain;
}

bool is_below(const fs::path& path, const fs::path& folder) {
  const fs::path rest = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(folder));
  return !rest.empty() && *rest.begin() != "..";
}

/// Files of images and masks must not be replaced, nor folders of images get others.
void require_apart(const fs::path& folder, const RunSpec& run, const std::vector<std::string>& words) {
  const auto refuse = [&](const std::string& other) {
    throw Error(ExitCode::usage,
                fmt::format("--images {}: is within {}, which has images or masks; name a folder of its own",
                            one_line(folder.string()), one_line(other)));
  };
  const DataSection& data = run.recipe().data;
  std::vector<std::string> listed = data.chosen_format().mask_folders();
  listed.insert(listed.end(), {data.path(Split::train), data.path(Split::val)});
  for (const std::string& word : words) {
    const fs::path parent = fs::absolute(word).parent_path();
    if (fs::is_directory(word)) {
      listed.push_back(word);
    } else if (fs::weakly_canonical(folder) == fs::weakly_canonical(parent)) {
      refuse(parent.string());
    }
  }
  for (const std::string& other : listed) {
    if (!other.empty() && fs::is_directory(other) && is_below(folder, other)) refuse(other);
  }
}

/// The path of a sample's files below the folder of all.
fs::path name_of(const ImageSource& source, int64_t sample, const std::vector<std::string>& words) {
  if (const std::string name = source.sample_name(sample); !name.empty()) return name;
  const fs::path file = source.sample_file(sample);
  if (file.empty()) return fmt::format("{:06}", sample);
  for (const std::string& word : words) {
    fs::path rest = file.lexically_relative(word);
    if (fs::is_directory(word) && !rest.empty() && *rest.begin() != "..") return rest;
  }
  return file.filename();
}

/// As red, green and blue.
void make_colour(Image& image) {
  if (image.channels != 1) return;
  const std::vector<uint8_t> grey = image.pixels;
  image.resize(3, image.height, image.width);
  for (size_t c = 0; c < 3; ++c)
    std::copy(grey.begin(), grey.end(), image.pixels.begin() + static_cast<std::ptrdiff_t>(c * grey.size()));
}

/// Half of the image's colours and half of the classes'. Class 0, by custom the background, stays clear.
void lay_over(Image& image, std::span<const uint8_t> classes) {
  const size_t plane = classes.size();
  for (size_t i = 0; i < plane; ++i) {
    if (classes[i] == 0 || classes[i] == kNoPrediction) continue;
    for (size_t c = 0; c < 3; ++c) {
      uint8_t& value = image.pixels[c * plane + i];
      value = static_cast<uint8_t>((value + class_palette()[classes[i]][c]) / 2);
    }
  }
}

}  // namespace

MaskImages::MaskImages(const fs::path& folder, const RunSpec& run, const DataSource& source,
                       const std::vector<std::string>& words)
    : folder_(folder), source_(as_images(source)), chain_(chain_of(run, source_)), output_(run.output()) {
  if (output_[1] > kNoPrediction)
    fail_at(run.recipe().origin_of("model"),
            fmt::format("--images writes masks of at most {} classes, the network has {}", kNoPrediction,
                        output_[1]));
  require_apart(folder, run, words);
  std::map<std::string, int64_t> taken;
  for (int64_t i = 0; i < source_.size(); ++i) {
    names_.push_back(name_of(source_, i, words).replace_extension().string());
    const auto [other, is_new] = taken.emplace(names_.back(), i);
    if (is_new) continue;
    throw Error(
        ExitCode::usage,
        fmt::format("--images {}: {} and {} would have the same files there; predict them one after the "
                    "other, into folders of their own",
                    one_line(folder.string()), one_line(source_.sample_file(other->second)),
                    one_line(source_.sample_file(i))));
  }
}

fs::path MaskImages::target(int64_t sample, const char* ending) const {
  return folder_ / (names_[static_cast<size_t>(sample)] + ending);
}

void MaskImages::write(PredictedSample& sample, std::span<const float> logits) {
  try {
    source_.read(sample.number, image_);
  } catch (const UnreadableSampleError& error) {  // it was readable a moment ago
    throw Error(ExitCode::data, one_line(error.sample().name) + ": " + error.sample().reason);
  }
  make_colour(image_);
  const View view = chain_.shown(image_.height, image_.width);
  const std::vector<uint8_t> classes =
      pixel_classes(logits, {output_[1], output_[2], output_[3]}, view, image_.height, image_.width);
  const fs::path mask = target(sample.number, "_mask.png"), overlay = target(sample.number, "_overlay.png");
  std::error_code ignored;  // the write fails in its place
  fs::create_directories(mask.parent_path(), ignored);
  write_atomically(mask, encode_png(classes, {1, image_.height, image_.width}, class_palette()));
  lay_over(image_, classes);
  write_atomically(overlay, encode_png(image_.pixels, {3, image_.height, image_.width}));
  sample.fields.push_back({"mask", mask.string()});
  sample.fields.push_back({"overlay", overlay.string()});
}

}  // namespace trainer
