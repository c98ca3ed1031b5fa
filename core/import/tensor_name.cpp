// SPDX-License-Identifier: Apache-2.0
#include "core/import/tensor_name.h"

#include <fmt/core.h>

#include <set>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/text/utf8.h"

namespace trainer {

bool is_tensor_name(std::string_view name) {
  return !name.empty() && name != "__metadata__" && is_utf8(name);
}

void require_different_names(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors) {
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    if (names.insert(tensor.name).second) continue;
    throw Error(ExitCode::data,
                fmt::format("{}: two tensors would be named '{}', expected different names; rename one: "
                            "--rename OLD=NEW",
                            one_line(path.string()), one_line(tensor.name)));
  }
}

}  // namespace trainer
