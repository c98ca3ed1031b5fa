// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace trainer {

/// 64-bit FNV-1a of a text as 16 hexadecimal digits; a directory's name takes the first kShortHash of them.
std::string text_hash(std::string_view text);
constexpr size_t kShortHash = 8;

/// Replaces each `{key}` by what `lookup` gives. A key it does not know and a brace that is not closed are
/// reported at `origin`, with the nearest of `known`; the text is then of no use.
std::string expand_name(const std::string& pattern,
                        const std::function<std::optional<std::string>(const std::string& key)>& lookup,
                        const Origin& origin, Diagnostics& diagnostics,
                        const std::vector<std::string>& known = {});

/// One key in which two YAML texts differ; a value is empty where its text lacks the key.
struct Difference {
  std::string path;  ///< `optimizer.lr`, `model.layers[2].units`
  std::string before, after;
};

/// Compares two texts in block style with a key or a list's item on each line, as resolved recipes are
/// written.
std::vector<Difference> differences(std::string_view before, std::string_view after);
/// The same without keys that are in `allowed` or below one that is.
std::vector<Difference> forbidden_differences(std::string_view before, std::string_view after,
                                              const std::vector<std::string>& allowed);
/// "optimizer.lr is 0.1 there and 0.2 here", for the first few keys.
std::string difference_text(const std::vector<Difference>& all);

}  // namespace trainer
