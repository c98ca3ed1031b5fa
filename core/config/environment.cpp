// SPDX-License-Identifier: Apache-2.0
#include "core/config/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>

#include "core/base/checksum.h"
#include "core/config/events.h"

namespace trainer {
namespace {

constexpr std::string_view kReference = "${env:", kHidden = "env:", kSamples = "env:samples";

bool is_variable_name(std::string_view name) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  return !name.empty() && (name[0] < '0' || name[0] > '9') &&
         name.find_first_not_of(kLetters) == std::string_view::npos;
}

Value leaf_of(std::string text) {
  Value value;
  value.kind = Value::Kind::scalar;
  value.text = value.raw = std::move(text);
  return value;
}

/// Of a leaf: a value on one line.
std::string hash_of(const std::string& name, const std::string& leaf) {
  const std::string text = fmt::format("{}: {}", name, leaf);
  return fmt::format("{}{:016x}", kHidden, checksum(std::as_bytes(std::span(text.data(), text.size()))));
}

}  // namespace

std::string expand_environment(std::string& text) {
  std::string expanded;
  size_t done = 0;
  for (size_t start; (start = text.find(kReference, done)) != std::string::npos;) {
    const size_t name_at = start + kReference.size();
    const size_t end = text.find('}', name_at);
    const std::string name = end == std::string::npos ? "" : text.substr(name_at, end - name_at);
    if (!is_variable_name(name)) return "expected the name of an environment variable, as in ${env:DATA_DIR}";
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) {
      return fmt::format("the environment variable {} is not set; run `export {}=...` first", name, name);
    }
    expanded.append(text, done, start - done).append(value);
    if (expanded.size() > kMaxBytes) return "too long once its environment variables are expanded";
    done = end + 1;
  }
  text = expanded.append(text, done);
  return "";
}

bool reads_environment(const std::string& raw) {
  return raw.find(kReference) != std::string::npos;
}

bool reads_environment(const Value& value) {
  return reads_environment(value.raw) ||
         std::ranges::any_of(value.items, [](const Value& item) { return reads_environment(item); }) ||
         std::ranges::any_of(value.entries,
                             [](const Value::Entry& entry) { return reads_environment(entry.value); });
}

Value hidden(const std::string& name, const Value& value) {
  std::string lines = to_yaml(value, false);
  if (lines.ends_with('\n')) lines.pop_back();
  return leaf_of(hash_of(name, lines));
}

Value left_to_samples() {
  return leaf_of(std::string(kSamples));
}

bool is_hidden(const std::string& leaf) {
  return leaf.starts_with(kHidden);
}

bool is_same_leaf(const std::string& path, const std::string& a, const std::string& b) {
  if (a == b || a == kSamples || b == kSamples) return true;
  if (a.empty() || b.empty() || is_hidden(a) == is_hidden(b)) return false;
  const std::string name = path.substr(path.rfind('.') + 1);
  return is_hidden(a) ? a == hash_of(name, b) : hash_of(name, a) == b;
}

}  // namespace trainer
