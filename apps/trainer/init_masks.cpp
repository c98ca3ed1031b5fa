// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/init_masks.h"

#include <algorithm>

#include "core/data/images/decode.h"
#include "core/data/images/masks.h"
#include "core/data/images/subset.h"
#include "core/data/subset.h"
#include "core/host/limits.h"

namespace trainer {
namespace {

/// Values of a drawing's greys go this far up; numbers of classes seldom do.
constexpr int64_t kBrightGrey = 64;
/// If fewer than one in four values up to the highest occurs, the recipe lists the values.
constexpr int64_t kFarApart = 4;

/// Sets the classes of the values that masks have. In a drawing, such as of 0 and 255, 255 is a class, too.
void count_classes(Starter& starter) {
  std::vector<int64_t>& pixels = starter.statistics.per_class;
  std::vector<int64_t> values;
  for (size_t value = 0; value < pixels.size(); ++value) {
    if (pixels[value] > 0) values.push_back(static_cast<int64_t>(value));
  }
  const bool has_ignored = starter.statistics.ignored_pixels.value_or(0) > 0;
  const int64_t highest = values.empty() ? 0 : values.back();
  const auto count = static_cast<int64_t>(values.size());
  const bool is_drawing = has_ignored && (count <= 1 || highest >= kBrightGrey);
  const bool are_far_apart = is_drawing || highest >= kFarApart * count;
  if (are_far_apart) {
    if (is_drawing) values.push_back(kIgnoredPixel);
    starter.mask_values = values;
  }
  starter.classes = are_far_apart ? static_cast<int64_t>(values.size()) : highest + 1;
}

}  // namespace

Starter measure_masks(const FoundData& found, int64_t most) {
  MaskKeys keys;
  keys.dir = FilePath(found.masks.string());
  if (!found.class_names.empty()) keys.class_names = FilePath(found.class_names.string());
  const SourceInfo info = peek_masked_images(keys, found.train.string(), Split::train);
  std::unique_ptr<ImageSource> source = open_masked_images(keys, found.train.string(), kMaxPixels, {});
  if (info.size > most) {
    const double fraction = static_cast<double>(most) / static_cast<double>(info.size);
    source = take_samples(std::move(source), split_samples(info.size, {Split::val, fraction, 0}));
  }
  Starter starter{.data = found,
                  .statistics = measure(*source, thread_limit(1).value),
                  .samples = info.size,
                  .shape = source->sample_shape(),
                  .skipped = info.skipped};
  count_classes(starter);
  const auto names = static_cast<int64_t>(starter.statistics.class_names.size());
  if (names == 0) return starter;
  if (names < starter.classes) {
    throw Error(ExitCode::data, found.class_names.string() +
                                    ": has fewer lines than the masks have classes, " +
                                    std::to_string(starter.classes));
  }
  if (starter.mask_values.empty()) starter.classes = names;
  return starter;
}

}  // namespace trainer
