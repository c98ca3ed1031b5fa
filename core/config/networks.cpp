// SPDX-License-Identifier: Apache-2.0
#include "core/config/networks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/config/file_path.h"
#include "core/config/messages.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Of an installed program, and of one in its build folder.
std::vector<fs::path> shipped_folders() {
  const fs::path program = program_directory();
  return {(program / "../share/trainer/configs/models").lexically_normal(),
          (program / "../../../configs/models").lexically_normal()};
}

std::vector<std::string> shipped_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::path& folder : shipped_folders()) {
    for (const DirectoryEntry& entry : directory_entries(folder, error)) {
      if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
    }
    if (!names.empty()) break;
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

bool is_network_name(const std::string& text) {
  return !text.empty() && text.find_first_of("/.~") == std::string::npos;
}

Value load_network(const Value& named, const Location& where, Diagnostics& diagnostics) {
  if (!is_network_name(named.text)) {
    const FilePath path = resolve_path(named.text, named.where);
    return load_yaml(path.resolved, where, diagnostics, with_base(path));
  }
  std::error_code ignored;
  for (const fs::path& folder : shipped_folders()) {
    const fs::path file = folder / (named.text + ".yaml");
    if (fs::exists(file, ignored)) return load_yaml(file.string(), where, diagnostics);
  }
  Value value;
  value.where = where;
  value.reported = true;
  diagnostics.error(
      where, "",
      fmt::format("no network '{}' comes with the program{}; the name of a file has an ending or a '/'",
                  shown(named.text), suggestion(named.text, shipped_names())));
  return value;
}

}  // namespace trainer
