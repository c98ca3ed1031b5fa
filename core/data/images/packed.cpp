// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/packed.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/config/value.h"
#include "core/data/images/encode_jpeg.h"
#include "core/data/images/encode_png.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/transforms/table.h"
#include "core/data/section.h"

namespace trainer {
namespace {

bool is_view(const Transform& transform) {
  return dynamic_cast<const ViewTransform*>(&transform) != nullptr;
}

/// The view that a transform makes of an image.
class ViewOf final : public ViewChooser {
 public:
  explicit ViewOf(const ViewTransform& transform) : transform_(transform) {}
  View choose(int64_t height, int64_t width) const override {
    RandomStream unused(0);
    return transform_.view(height, width, unused);
  }
  const PixelWindow* pixel_window() const override { return nullptr; }

 private:
  const ViewTransform& transform_;
};

class PackedImages final : public ImageSource {
 public:
  PackedImages(const ImageSource& source, Packing packing) : source_(source), packing_(std::move(packing)) {}

  int64_t size() const override { return source_.size(); }
  Shape sample_shape() const override { return kImageShape; }
  int64_t classes() const override { return source_.classes(); }
  int64_t resident_bytes() const override { return source_.resident_bytes(); }
  void check_labels(const AllowedLabels& allowed) const override { source_.check_labels(allowed); }
  std::vector<std::string> class_names() const override { return source_.class_names(); }
  std::optional<int32_t> label_of(int64_t index) const override { return source_.label_of(index); }
  bool is_encoded() const override { return true; }
  void read(int64_t, Image&) const override { throw std::logic_error("images are packed as files"); }

  void read_encoded(int64_t index, Image& into) const override {
    if (const auto label = source_.label_of(index)) into.label = *label;  // also of an unreadable image
    read_changed(index, into);
    const std::string file = packing_.is_lossless
                                 ? encode_png(into.pixels, {into.channels, into.height, into.width})
                                 : encode_jpeg(into, packing_.quality);
    into.encoded.assign(file.begin(), file.end());
  }

 private:
  void read_changed(int64_t index, Image& into) const {
    RandomStream unused(0);
    for (const auto& step : packing_.transforms) {
      const bool is_first = step == packing_.transforms.front();
      if (is_first && is_view(*step)) {
        source_.read_view(index, ViewOf(static_cast<const ViewTransform&>(*step)), into);
        continue;
      }
      if (is_first) source_.read(index, into);
      step->apply(into, unused);
    }
    if (packing_.transforms.empty()) source_.read(index, into);
  }

  const ImageSource& source_;
  Packing packing_;
};

/// The label is known even for a file that cannot be read.
void read_one(const ImageSource& source, int64_t index, Image& into) {
  if (!source.is_encoded()) return source.read(index, into);
  try {
    source.read_encoded(index, into);
  } catch (const UnreadableSampleError&) {
    into.encoded.clear();
  }
}

}  // namespace

TransformList packing_transforms(const std::string& list) {
  Diagnostics diagnostics;
  const Value value = parse_yaml("transforms: " + list, kCommandLine, diagnostics);
  TransformList made;
  Fields fields;
  fields.components("transforms", made, transforms(), "");
  if (diagnostics.ok()) fields.read(value, "", diagnostics);
  const Shape any = {3, 64, 64};  // some parameters are checked with a shape
  for (const auto& step : made)
    if (diagnostics.ok() && !is_view(*step)) step->output_shape(any, diagnostics);
  if (!diagnostics.ok())
    throw Error(ExitCode::usage, fmt::format("{}", fmt::join(diagnostics.problems(), "\n")));
  for (const auto& step : made) {
    const bool is_out_of_place = is_view(*step) && step != made.front();
    if (step->is_random() || step->is_terminal() || step->pixel_window() != nullptr || is_out_of_place ||
        (!is_view(*step) && step->mask_effect() != MaskEffect::kept))
      throw Error(ExitCode::usage,
                  fmt::format("{}: only filters that always do the same can be applied once, such as median, "
                              "gaussian, equalize or autocontrast; leave it to the recipe",
                              step->chosen_as));
  }
  return made;
}

std::unique_ptr<ImageSource> pack_images(const ImageSource& source, Packing packing) {
  const int64_t channels = source.sample_shape()[0];
  if (channels != 1 && channels != 3)
    throw Error(ExitCode::data,
                fmt::format("an image file has 1 or 3 channels, and the samples have {}; pack them "
                            "as data.format record without changes",
                            channels));
  return std::make_unique<PackedImages>(source, std::move(packing));
}

std::string text_of(Transform& transform) {
  Fields fields;
  transform.declare(fields);
  const Value parameters = fields.resolved(Fields::Form::canonical);
  return parameters.entries.empty() ? transform.chosen_as
                                    : fmt::format("{}: {}", transform.chosen_as, to_flow(parameters));
}

std::vector<std::string> texts_of(const TransformList& list) {
  std::vector<std::string> texts;
  for (const auto& step : list) texts.push_back(text_of(*step));
  return texts;
}

std::string repeated_transforms(const std::vector<std::string>& packed, const DataSection& section,
                                Split split) {
  std::vector<std::string> repeated;
  for (const auto& step : section.images.transform_list(split)) {
    const bool is_known = std::ranges::any_of(packed, [&](const std::string& one) {
      return one == step->chosen_as || one.starts_with(step->chosen_as + ":");
    });
    if (is_known && !is_view(*step)) repeated.push_back(text_of(*step));
  }
  if (repeated.empty()) return "";
  return fmt::format("{}: the images have had {}, when they were packed, and {} repeats {}; remove it there",
                     one_line(section.path(split)), fmt::join(packed, ", "),
                     split == Split::train ? "data.augment" : "data.eval_transform",
                     fmt::join(repeated, ", "));
}

void read_for_packing(const ImageSource& source, int64_t begin, int64_t end, int64_t threads,
                      const std::function<void(const Image& image)>& take) {
  constexpr int64_t kSamplesOfThread = 16;
  const int64_t count = std::max<int64_t>(1, threads), all = count * kSamplesOfThread;
  std::vector<Image> images(static_cast<size_t>(all));
  for (int64_t first = begin; first < end; first += all) {
    const int64_t last = std::min(end, first + all);
    std::vector<std::exception_ptr> problems(static_cast<size_t>(count));
    const auto work = [&](int64_t thread) {
      try {
        for (int64_t i = first + thread; i < last; i += count)
          read_one(source, i, images[static_cast<size_t>(i - first)]);
      } catch (...) {
        problems[static_cast<size_t>(thread)] = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> others;
      for (int64_t thread = 1; thread < count; ++thread) others.emplace_back(work, thread);
      work(0);
    }
    for (const std::exception_ptr& problem : problems) {
      if (problem) std::rethrow_exception(problem);
    }
    for (int64_t i = first; i < last; ++i) take(images[static_cast<size_t>(i - first)]);
  }
}

}  // namespace trainer
