// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/value.h"

namespace trainer {

/// Runs with the same identity are one run: the resolved keys that affect results.
struct RunIdentity {
  std::string mathematics;                    ///< as YAML, stored and hashed; with the first names of keys
  std::map<std::string, std::string> values;  ///< the same by path: "optimizer.lr" is "0.1"
  std::string program_version;                ///< recorded, not compared
};
/// The identity of a run with these keys.
RunIdentity identity_of(const Value& resolved);
/// From a run's stored text; nothing if it is not YAML.
std::optional<RunIdentity> parse_identity(const std::string& mathematics);

/// 64-bit FNV-1a of a text as 16 hexadecimal digits; a directory's name takes the first kShortHash of them.
std::string text_hash(std::string_view text);
constexpr size_t kShortHash = 8;

/// Replaces each `{key}` by the result of `lookup`. Unknown keys and unclosed braces are reported at
/// `origin`, with the nearest of `known`; the text is then unusable.
std::string expand_name(const std::string& pattern,
                        const std::function<std::optional<std::string>(const std::string& key)>& lookup,
                        const Origin& origin, Diagnostics& diagnostics,
                        const std::vector<std::string>& known = {});

/// One key in which two runs differ, under its present name. A value is empty if its run lacks the key.
struct Difference {
  std::string path;  ///< `optimizer.lr`, `model.layers[2].units`
  std::string before, after;
};

std::vector<Difference> differences(const RunIdentity& before, const RunIdentity& after);
/// The same without keys that are in `allowed` or below one that is.
std::vector<Difference> forbidden_differences(const RunIdentity& before, const RunIdentity& after,
                                              const std::vector<std::string>& allowed);
/// "optimizer.lr is 0.1 there and 0.2 here", for the first few keys, and the sections of the others.
std::string difference_text(const std::vector<Difference>& all);

}  // namespace trainer
