// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/prediction_images.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/images/encode_png.h"
#include "core/storage/atomic_file.h"

namespace trainer {

namespace fs = std::filesystem;

PredictionImages::PredictionImages(fs::path folder) : folder_(std::move(folder)) {
  try {
    fs::create_directories(folder_);
    if (fs::is_empty(folder_)) return;
  } catch (const fs::filesystem_error& error) {
    if (error.code() != std::errc::not_a_directory && error.code() != std::errc::file_exists)
      throw Error(ExitCode::io, fmt::format("{}: {}", one_line(folder_.string()), error.code().message()));
  }
  throw Error(ExitCode::usage,
              fmt::format("--images {}: expected a new or an empty folder, so that no file is "
                          "overwritten; name another one",
                          one_line(folder_.string())));
}

std::string PredictionImages::write(const std::string& sample_file, int64_t number,
                                    const PredictedImage& image) {
  const fs::path path = folder_ / (name_for(sample_file, number) + ".png");
  write_atomically(path, encode_png(image.pixels, image.shape));
  return path.string();
}

std::string PredictionImages::name_for(const std::string& sample_file, int64_t number) {
  const std::string name =
      sample_file.empty() ? fmt::format("sample-{}", number) : fs::path(sample_file).stem().string();
  for (std::string next = name;;) {
    const int64_t count = ++names_[next];
    if (count == 1) return next;
    next = fmt::format("{}-{}", name, names_[name]);
  }
}

}  // namespace trainer
