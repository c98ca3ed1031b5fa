// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/found_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/directory.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/images/cifar.h"
#include "core/data/images/decode.h"
#include "core/data/images/folder_listing.h"
#include "core/data/images/idx.h"
#include "core/data/images/image_files.h"
#include "core/data/images/label_file.h"
#include "core/data/images/record.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 2> kTrainNames = {"train", "training"};
constexpr std::array<const char*, 4> kValNames = {"val", "valid", "validation", "test"};
constexpr std::string_view kIdxImages = "-images-idx3-ubyte";

/// Whether this is a folder of images.
bool is_class(const DirectoryEntry& entry) {
  SkippedFiles ignored;
  return entry.is_directory() && !is_hidden_name(entry.path()) &&
         !images_below(entry.path(), ignored).empty();
}

/// Whether a folder holds folders of images, one for each class.
bool has_classes(const fs::path& folder) {
  return fs::is_directory(folder) && std::ranges::any_of(directory_entries(folder), is_class);
}

/// The first of the folder's sub-folders by these names for which this is so.
template <class Holds>
fs::path split_below(const fs::path& folder, std::span<const char* const> names, const Holds& holds) {
  const auto found = std::ranges::find_if(names, [&](const char* name) { return holds(folder / name); });
  return found == names.end() ? fs::path() : folder / *found;
}

/// The files of a folder that may be tables of labels, sorted.
std::vector<std::string> tables_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : directory_entries(folder)) {
    std::string ending = entry.path().extension().string();
    for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!entry.is_directory() && !is_hidden_name(entry.path()) && (ending == ".csv" || ending == ".tsv"))
      names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

bool has_images(const fs::path& folder) {
  SkippedFiles ignored;
  return fs::is_directory(folder) && !images_below(folder, ignored).empty();
}

/// Images and masks in folders of these names; a split counts if it has both.
std::optional<FoundData> find_masks(const fs::path& folder) {
  const fs::path images = folder / "images", masks = folder / "masks";
  if (!has_images(images) || !has_images(masks)) return std::nullopt;
  const auto has_both = [&](const fs::path& split) {
    return has_images(split) && has_images(masks / split.filename());
  };
  FoundData found{"image_folder", images, {}, masks};
  if (const fs::path names = folder / "classes.txt"; fs::is_regular_file(names)) found.class_names = names;
  const fs::path train = split_below(images, kTrainNames, has_both);
  if (train.empty()) return found;
  found.train = train, found.masks = masks / train.filename();
  found.val = split_below(images, kValNames, has_both);
  if (!found.val.empty()) found.val_masks = masks / found.val.filename();
  return found;
}

/// The file labels.csv or labels.tsv of a folder of images, at any depth; empty if it has none.
std::string labels_file_in(const fs::path& folder) {
  if (!fs::is_directory(folder)) return "";
  const std::vector<std::string> tables = tables_in(folder);
  const auto found =
      std::ranges::find_if(tables, [](const fs::path& name) { return name.stem() == "labels"; });
  return found == tables.end() || !has_images(folder) ? "" : *found;
}

/// Images with a file labels.csv, perhaps below `train` and `val`.
std::optional<FoundData> find_labels_file(const fs::path& folder) {
  FoundData found{.format = "image_folder", .train = folder, .val = {}, .labels = labels_file_in(folder)};
  if (!found.labels.empty()) return found;
  for (const char* train : kTrainNames) {
    found.train = folder / train;
    found.labels = labels_file_in(found.train);
    if (found.labels.empty()) continue;
    for (const char* val : kValNames)
      if (found.val.empty() && labels_file_in(folder / val) == found.labels) found.val = folder / val;
    return found;
  }
  return std::nullopt;
}

/// The only table of a folder of images, at any depth; empty if there is not one.
std::string only_table_in(const fs::path& folder) {
  const std::vector<std::string> tables = tables_in(folder);
  return tables.size() == 1 && has_images(folder) ? tables[0] : "";
}

/// Why a table does not give labels for the images in a folder; empty if it does.
std::string trouble_with(const fs::path& folder, const std::string& table) try {
  SkippedFiles ignored;
  read_label_file((folder / table).string(), folder.string(), images_below(folder, ignored));
  return "";
} catch (const Error& problem) {
  return problem.what();
}

/// Images with one table of any name that gives their labels, whatever folders they are in.
std::optional<FoundData> find_table(const fs::path& folder) {
  const std::string table = only_table_in(folder);
  if (table.empty() || !trouble_with(folder, table).empty()) return std::nullopt;
  return FoundData{.format = "image_folder", .train = folder, .val = {}, .labels = table};
}

/// The same with a table that cannot be used, which is then refused with the reason.
std::optional<FoundData> find_bad_table(const fs::path& folder) {
  const std::string table = only_table_in(folder);
  if (table.empty()) return std::nullopt;
  return FoundData{.format = "image_folder", .train = folder, .val = {}, .labels = table};
}

/// Images alone, beside each other.
std::optional<FoundData> find_flat_images(const fs::path& folder) {
  if (!is_flat_folder(folder.string()) || !has_images(folder)) return std::nullopt;
  return FoundData{.format = "image_folder", .train = folder, .val = {}, .is_unlabelled = true};
}

/// Folders of images, one for each class. A single one with a table beside it is no class.
std::optional<FoundData> find_class_folders(const fs::path& folder) {
  const fs::path train = split_below(folder, kTrainNames, has_classes);
  const fs::path val = split_below(folder, kValNames, has_classes);
  if (!train.empty()) return FoundData{"image_folder", train, val};
  const auto classes = std::ranges::count_if(directory_entries(folder), is_class);
  const std::string table = only_table_in(folder);
  if (classes == 0 || (classes == 1 && !table.empty())) return std::nullopt;
  FoundData found{"image_folder", folder, {}};
  if (!table.empty())
    found.note = fmt::format("{} is not used: {}", one_line(table), trouble_with(folder, table));
  return found;
}

std::optional<FoundData> find_cifar(const fs::path& folder) {
  for (const auto& [set, name] : {std::pair{Cifar::ten, "cifar10"}, std::pair{Cifar::hundred, "cifar100"}}) {
    const auto is_complete = [&, set = set](Split split) {
      return missing_cifar(set, folder.string(), split).empty();
    };
    if (is_complete(Split::train))
      return FoundData{name, folder, is_complete(Split::val) ? folder : fs::path(), {}, {}, {}, true};
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

/// A function for each kind of data in a folder; the first one that finds its kind decides.
using Finder = std::optional<FoundData> (*)(const fs::path& folder);
constexpr std::array<Finder, 8> kFinders = {find_masks,     find_labels_file, find_table, find_class_folders,
                                            find_bad_table, find_cifar,       find_idx,   find_flat_images};

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
  for (const Finder find : kFinders) {
    if (const std::optional<FoundData> found = find(path)) return *found;
  }
  SkippedFiles skipped;
  images_below(path, skipped);
  const std::string others = skipped.text();
  throw Error(
      ExitCode::data,
      fmt::format(
          "{}: expected a folder of {} files for each class (perhaps below `train` and `val`), "
          "`images` and `masks`, images with a CSV file of labels, images alone, the files of CIFAR or "
          "MNIST, or a record file; found none{}",
          one_line(path.string()), image_endings(), others.empty() ? "" : fmt::format(" ({})", others)));
} catch (const fs::filesystem_error& problem) {
  throw Error(ExitCode::io, fmt::format("{}: cannot be listed: {}", one_line(problem.path1().string()),
                                        problem.code().message()));
}

}  // namespace trainer
