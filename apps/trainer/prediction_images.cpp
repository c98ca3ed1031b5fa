// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/prediction_images.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/images/encode_png.h"
#include "core/storage/atomic_file.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> image_names(const DataSource& source) {
  std::vector<std::string> names;
  std::unordered_map<std::string, int64_t> taken;  // and how many samples have had them
  for (int64_t i = 0; i < source.size(); ++i) {
    const std::string file = source.sample_file(i);
    const std::string name = file.empty() ? fmt::format("sample-{}", i) : fs::path(file).stem().string();
    std::string next = name;
    while (++taken[next] > 1) next = fmt::format("{}-{}", name, taken[name]);
    names.push_back(std::move(next));
  }
  return names;
}

[[noreturn]] void refuse_folder(const fs::path& folder, const std::string& why) {
  throw Error(ExitCode::usage,
              fmt::format("--images {}: {}, so that no file is overwritten; name another one",
                          one_line(folder.string()), why));
}

}  // namespace

PredictionImages::PredictionImages(fs::path folder, const DataSource& source, bool is_shared)
    : folder_(std::move(folder)), names_(image_names(source)) {
  try {
    fs::create_directories(folder_);
    if (is_shared || fs::is_empty(folder_)) return;
  } catch (const fs::filesystem_error& error) {
    if (error.code() != std::errc::not_a_directory && error.code() != std::errc::file_exists)
      throw Error(ExitCode::io, fmt::format("{}: {}", one_line(folder_.string()), error.code().message()));
  }
  refuse_folder(folder_, "expected a new or an empty folder");
}

std::string PredictionImages::write(int64_t sample, const PredictedImage& image) {
  const fs::path path = folder_ / (names_[static_cast<size_t>(sample)] + ".png");
  if (fs::exists(path)) refuse_folder(folder_, "expected no file " + one_line(path.filename().string()));
  write_atomically(path, encode_png(image.pixels, image.shape));
  return path.string();
}

}  // namespace trainer
