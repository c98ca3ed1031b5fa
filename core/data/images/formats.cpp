// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/formats.h"

#include <fmt/format.h>

#include <utility>

#include "core/data/images/subset.h"
#include "core/data/images/tolerant.h"
#include "core/data/subset.h"

namespace trainer {
namespace {

std::unique_ptr<DataSource> open_images(const ImageFormat& format, const DataSection& section,
                                        const SourceRequest& request, const ErrorBudget* budget) {
  std::unique_ptr<ImageSource> source = format.open(section, request);
  if (section.val_fraction > 0)
    source = take_split(std::move(source), request.split, section.val_fraction, request.seed);
  return budget == nullptr ? std::move(source) : tolerate_unreadable(std::move(source), *budget);
}

/// A fraction set aside is chosen from the samples' numbers, which are then kept.
std::optional<SourceInfo> peek_images(const ImageFormat& format, const DataSection& section,
                                      const SourceRequest& request) {
  std::optional<SourceInfo> info = format.peek(section, request);
  if (!info || section.val_fraction == 0) return info;
  const int64_t of_validation = validation_count(info->size, section.val_fraction);
  info->size = request.split == Split::val ? of_validation : info->size - of_validation;
  info->resident_bytes += info->size * static_cast<int64_t>(sizeof(int64_t));
  return info;
}

/// Where files of the format may have any size, the transforms must make them all what the network takes.
void check_split(const ImageFormat& format, const DataSection& section, Split split,
                 const Shape& network_shape, const OriginOf& origin_of, Diagnostics& diagnostics) {
  // What nobody reads may suit the network's own size: `trainer predict` takes single images with it.
  const bool is_read = has_split(section, split);
  const Shape expected = is_read ? format.shape.value_or(network_shape) : network_shape;
  const size_t problems = diagnostics.problems().size();
  const Shape made = TransformChain(section.transform_list(split), expected, diagnostics).output_shape();
  const bool is_known = format.shape.has_value() || !format.reads_files;
  const bool is_reported = diagnostics.problems().size() != problems;
  if (!is_read || !is_known || is_reported || made == network_shape) return;
  const Origin origin = origin_of(split == Split::train ? "data.augment" : "data.eval_transform");
  if (is_fixed(made)) {
    diagnostics.error(origin,
                      fmt::format("produces samples of shape {}, the network expects {} (model.input)",
                                  to_string(made), to_string(network_shape)));
  } else {
    diagnostics.error(origin, fmt::format("images of format {} differ in size; begin the list with "
                                          "random_resized_crop, or resize and center_crop",
                                          section.format));
  }
}

void check_images(const ImageFormat& format, const DataSection& section, const Shape& network_shape,
                  const OriginOf& origin_of, Diagnostics& diagnostics) {
  if (network_shape.size() != 3) {
    diagnostics.error(
        origin_of("model.input"),
        fmt::format("expected [channels, height, width], the shape of the images of data.format {}, got "
                    "{} number{}",
                    section.format, network_shape.size(), network_shape.size() == 1 ? "" : "s"));
    return;
  }
  for (const Split split : {Split::train, Split::val})
    check_split(format, section, split, network_shape, origin_of, diagnostics);
}

SourceFormat row_of(const ImageFormat& format) {
  return {.name = format.name,
          .reads_files = format.reads_files,
          .gives_label_maps = format.gives_label_maps,
          .takes_lists = format.takes_lists,
          .gives_label_sets = format.gives_label_sets,
          .open = [format](const auto&... all) { return open_images(format, all...); },
          .peek = [format](const auto&... all) { return peek_images(format, all...); },
          .missing = format.missing,
          .files = format.files,
          .class_names = format.class_names,
          .check =
              [format](const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
                       Diagnostics& diagnostics) {
                check_images(format, section, network_shape, origin_of, diagnostics);
              }};
}

}  // namespace

std::vector<SourceFormat> image_formats() {
#define TRAINER_ROW(function) row_of(function()),
  return {TRAINER_IMAGE_FORMATS(TRAINER_ROW)};
#undef TRAINER_ROW
}

}  // namespace trainer
