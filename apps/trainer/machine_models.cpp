// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/machine_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "apps/trainer/shipped_files.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"

namespace trainer {

MachineDescription find_machine(const std::string& name) {
  const auto found = shipped_machines().find(name);
  if (found != shipped_machines().end()) return read_machine_description(found->second, name + ".json");
  if (!name.ends_with(".json")) {
    std::vector<std::string> names;
    for (const auto& [known, text] : shipped_machines()) names.push_back(known);
    throw Error(ExitCode::recipe,
                fmt::format("--machine: unknown machine '{}': choose {}, or a file that ends in .json",
                            one_line(name), fmt::join(names, ", ")));
  }
  return read_machine_description(read_input(name), one_line(name));
}

std::optional<MachineDescription> machine_with(const std::string& device) {
  for (const auto& [name, text] : shipped_machines()) {
    MachineDescription machine = read_machine_description(text, name + ".json");
    if (machine.device == device) return machine;
  }
  return std::nullopt;
}

}  // namespace trainer
