// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/doctor_reading.h"

#include <fmt/format.h>

#include "core/base/units.h"

namespace trainer {
namespace {

bool has_read(const ReadingSpeed& speed) {
  return speed.bytes > 0 && speed.seconds > 0;
}

bool has_decoded(const ReadingSpeed& speed) {
  return speed.images.samples > 0 && speed.images.seconds > 0;
}

std::string files_text(const ReadingSpeed& speed) {
  if (speed.files == 0) return speed.unreadable == 0 ? "none, there is nothing to read" : "none was read";
  if (!has_read(speed)) return fmt::format("{}, all empty", speed.files);
  const std::string rate = human_bytes(static_cast<int64_t>(speed.bytes_per_second())) + "/s",
                    bytes = human_bytes(speed.bytes);
  constexpr const char* kCached = "the system may have cached them";
  if (speed.files == 1)
    return fmt::format("{} ({} of 1 file in {:.2f} s; {})", rate, bytes, speed.seconds, kCached);
  return fmt::format("{}, {:.0f} files/s ({} of {} files in {:.2f} s; {})", rate,
                     static_cast<double>(speed.files) / speed.seconds, bytes, speed.files, speed.seconds,
                     kCached);
}

std::string images_text(const ReadingSpeed& speed) {
  if (speed.image_files == 0) return "none, by the names of the files";
  if (!has_decoded(speed)) return "none could be decoded";
  return fmt::format(
      "one core reads and decodes {:.0f} images/s ({} in {:.2f} s; whole, without augmentations)",
      speed.images.per_second(), speed.images.samples, speed.images.seconds);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> reading_rows(const ReadingSpeed& speed) {
  std::vector<std::pair<std::string, std::string>> rows = {{"files", files_text(speed)}};
  if (speed.files > 0) rows.emplace_back("images", images_text(speed));
  if (speed.unreadable == 1) rows.emplace_back("not readable", speed.first_unreadable);
  if (speed.unreadable > 1)
    rows.emplace_back("not readable",
                      fmt::format("{}, and {} more", speed.first_unreadable, speed.unreadable - 1));
  return rows;
}

Json reading_json(const ReadingSpeed& speed) {
  return {{"files", speed.files},
          {"bytes", speed.bytes},
          {"seconds", speed.seconds},
          {"bytes_per_second", has_read(speed) ? Json(speed.bytes_per_second()) : Json()},
          {"image_files", speed.image_files},
          {"images_decoded", speed.images.samples},
          {"processor_seconds", speed.images.seconds},
          {"images_per_second_of_a_core", has_decoded(speed) ? Json(speed.images.per_second()) : Json()},
          {"unreadable", speed.unreadable},
          {"first_unreadable", speed.first_unreadable}};
}

}  // namespace trainer
