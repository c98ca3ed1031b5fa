// SPDX-License-Identifier: Apache-2.0
#include "core/import/renames.h"

#include <fmt/core.h>

#include <cstddef>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/config/fields.h"
#include "core/import/tensor_name.h"

namespace trainer {
namespace {

[[noreturn]] void refuse_rename(const std::string& text, const std::string& reason) {
  throw Error(ExitCode::usage, fmt::format("--rename {}: {}", one_line(text), reason));
}

bool is_prefix(const std::string& name) {
  return name.ends_with('.');
}

/// The names or, for a prefix, everything that ends with a dot at the start of a name.
std::vector<std::string> candidates_for(const Rename& rename, const std::vector<StoredTensor>& tensors) {
  std::set<std::string> found;
  for (const StoredTensor& tensor : tensors) {
    if (!is_prefix(rename.from)) found.insert(tensor.name);
    for (size_t dot = tensor.name.find('.'); is_prefix(rename.from) && dot != std::string::npos;
         dot = tensor.name.find('.', dot + 1))
      found.insert(tensor.name.substr(0, dot + 1));
  }
  return {found.begin(), found.end()};
}

}  // namespace

Rename parse_rename(const std::string& text) {
  const size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0)
    refuse_rename(text, "expected OLD=NEW, as in backbone.=encoder.");
  Rename rename{text.substr(0, sign), text.substr(sign + 1)};
  if (is_prefix(rename.from) ? !rename.to.empty() && !is_prefix(rename.to)
                             : is_prefix(rename.to) || rename.to.empty())
    refuse_rename(text, "expected two names, or two prefixes that end with a dot; a new prefix may be empty");
  return rename;
}

void rename_tensors(std::vector<StoredTensor>& tensors, const std::vector<Rename>& renames) {
  for (const Rename& rename : renames) {
    const std::string text = rename.from + "=" + rename.to;
    bool is_used = false;
    for (StoredTensor& tensor : tensors) {
      const bool matches =
          is_prefix(rename.from) ? tensor.name.starts_with(rename.from) : tensor.name == rename.from;
      if (!matches) continue;
      is_used = true;
      tensor.name = rename.to + tensor.name.substr(rename.from.size());
      if (!is_tensor_name(tensor.name))
        refuse_rename(text, "leaves a name that a safetensors file cannot have");
    }
    if (is_used) continue;
    const std::optional<std::string> near = nearest(rename.from, candidates_for(rename, tensors));
    const std::string advice =
        near ? fmt::format("did you mean '{}'?", one_line(*near)) : "--list prints the names";
    refuse_rename(text,
                  fmt::format("no tensor {} '{}'; {}", is_prefix(rename.from) ? "begins with" : "is named",
                              one_line(rename.from), advice));
  }
}

}  // namespace trainer
