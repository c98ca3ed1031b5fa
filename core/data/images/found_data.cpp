// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/found_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/directory.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/images/cifar.h"
#include "core/data/images/decode.h"
#include "core/data/images/idx.h"
#include "core/data/images/image_files.h"
#include "core/data/images/record.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIdxImages = "-images-idx3-ubyte";

/// Whether a folder holds folders of images, one for each class.
bool has_classes(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  return std::ranges::any_of(directory_entries(folder), [](const DirectoryEntry& entry) {
    SkippedFiles ignored;
    return entry.is_directory() && !is_hidden_name(entry.path()) &&
           !images_below(entry.path(), ignored).empty();
  });
}

/// The first of the folder's sub-folders by these names that holds classes.
fs::path split_below(const fs::path& folder, const std::vector<const char*>& names) {
  const auto found =
      std::ranges::find_if(names, [&](const char* name) { return has_classes(folder / name); });
  return found == names.end() ? fs::path() : folder / *found;
}

std::optional<FoundData> find_images(const fs::path& folder) {
  const fs::path train = split_below(folder, {"train", "training"});
  const fs::path val = split_below(folder, {"val", "valid", "validation", "test"});
  if (!train.empty()) return FoundData{"image_folder", train, val};
  if (has_classes(folder)) return FoundData{"image_folder", folder, {}};
  return std::nullopt;
}

std::optional<FoundData> find_cifar(const fs::path& folder) {
  for (const auto& [set, name] : {std::pair{Cifar::ten, "cifar10"}, std::pair{Cifar::hundred, "cifar100"}}) {
    const auto is_complete = [&, set = set](Split split) {
      return missing_cifar(set, folder.string(), split).empty();
    };
    if (is_complete(Split::train))
      return FoundData{name, folder, is_complete(Split::val) ? folder : fs::path(), true};
  }
  return std::nullopt;
}

std::optional<FoundData> find_idx(const fs::path& folder) {
  const auto complete = [&](const std::vector<const char*>& prefixes) {
    const auto found = std::ranges::find_if(
        prefixes, [&](const char* prefix) { return missing_idx((folder / prefix).string()).empty(); });
    return found == prefixes.end() ? fs::path() : folder / *found;
  };
  const fs::path train = complete({"train"});
  if (train.empty()) return std::nullopt;
  return FoundData{"idx", train, complete({"t10k", "val", "test"})};
}

FoundData find_in_file(const fs::path& file) {
  const std::string name = file.string();
  if (const size_t at = name.rfind(kIdxImages); at != std::string::npos)
    return {"idx", name.substr(0, at), {}};
  if (const fs::path end = file.extension(); end == ".txt" || end == ".bin") {
    throw Error(ExitCode::data,
                fmt::format("{}: expected images; for text and shards of tokens write a recipe with "
                            "data.format text or tokens, as docs/text.md shows",
                            one_line(name)));
  }
  open_record(name, kMaxPixels);  // throws otherwise
  return {"record", file, {}};
}

}  // namespace

FoundData find_data(const fs::path& path) try {
  if (!fs::exists(path))
    throw Error(ExitCode::data, one_line(path.string()) + ": there is no such file or folder");
  if (!fs::is_directory(path)) return find_in_file(path);
  for (const auto& find : {find_images, find_cifar, find_idx}) {
    if (const std::optional<FoundData> found = find(path)) return *found;
  }
  SkippedFiles skipped;
  images_below(path, skipped);
  const std::string others = skipped.text();
  throw Error(
      ExitCode::data,
      fmt::format("{}: expected a folder of {} files for each class (perhaps below `train` and `val`), "
                  "the files of CIFAR or MNIST, or a record file; found none{}",
                  one_line(path.string()), image_endings(),
                  others.empty() ? "" : fmt::format(" ({})", others)));
} catch (const fs::filesystem_error& problem) {
  throw Error(ExitCode::io, fmt::format("{}: cannot be listed: {}", one_line(problem.path1().string()),
                                        problem.code().message()));
}

}  // namespace trainer
