// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/config/value.h"

namespace trainer {
namespace {

bool is_null_word(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

/// Whether YAML reads `text` as itself without quotes; within `[ ]` more characters have a meaning.
bool is_plain(std::string_view text, bool in_flow) {
  if (is_null_word(text) || text == "<<" || text.front() == ' ' || text.back() == ' ' || text.back() == ':')
    return false;
  const bool signed_number = text.size() > 1 && text[0] == '-' && text[1] != ' ' && text[1] != '-';
  constexpr std::string_view kIndicators = "-?:,[]{}#&*!|>'\"%@`";
  if (kIndicators.find(text[0]) != std::string_view::npos && !signed_number) return false;
  if (text.starts_with("...")) return false;
  if (text.find(": ") != std::string_view::npos || text.find(" #") != std::string_view::npos) return false;
  if (in_flow && text.find_first_of(",[]{}?:") != std::string_view::npos) return false;
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

std::string in_quotes(std::string_view text) {
  std::string line = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      line += {'\\', c};
    } else if (c == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  return line + "\"";
}

std::string scalar_text(const Value& value, bool in_flow) {
  const std::string& text = value.raw.empty() ? value.text : value.raw;
  return value.quoted || !is_plain(text, in_flow) ? in_quotes(text) : text;
}

std::string key_text(const std::string& key) {
  return is_plain(key, true) ? key : in_quotes(key);
}

/// Whether the value fits on one line: all but maps and lists of them. A number that only `[ ]` would force
/// into quotes keeps its own line, because quotes would make it text.
bool fits_line(const Value& value) {
  if (value.kind == Value::Kind::map) return value.entries.empty();
  return std::all_of(value.items.begin(), value.items.end(), [](const Value& item) {
    const std::string& text = item.raw.empty() ? item.text : item.raw;
    return item.kind != Value::Kind::map && fits_line(item) &&
           (item.kind != Value::Kind::scalar || item.quoted || is_plain(text, true) ||
            !is_plain(text, false));
  });
}

std::string on_one_line(const Value& value, bool in_flow = false);

std::string map_on_one_line(const Value& value) {
  std::string line = "{";
  for (const Value::Entry& entry : value.entries)
    line += (line.size() > 1 ? ", " : "") + key_text(entry.key) + ": " + on_one_line(entry.value, true);
  return line + "}";
}

std::string on_one_line(const Value& value, bool in_flow) {
  switch (value.kind) {
    case Value::Kind::null:
      return "null";
    case Value::Kind::scalar:
      return scalar_text(value, in_flow);
    case Value::Kind::map:
      return map_on_one_line(value);
    case Value::Kind::list:
      break;
  }
  std::string line = "[";
  for (const Value& item : value.items) line += (line.size() > 1 ? ", " : "") + on_one_line(item, true);
  return line + "]";
}

/// Writes block style. Nested blocks start on a line of their own, except a map inside a list: `- key: …`.
class Writer {
 public:
  explicit Writer(bool sources) : sources_(sources) {}

  void write(const Value& value, const Location& where, size_t indent) {
    if (fits_line(value)) return leaf(value, where);
    const bool is_map = value.kind == Value::Kind::map;
    for (const Value::Entry& entry : value.entries) {
      start_line(indent);
      text_ += key_text(entry.key) + ":";
      child(entry.value, entry.where, indent);
    }
    for (size_t i = 0; !is_map && i < value.items.size(); ++i) {
      start_line(indent);
      text_ += "-";
      const Value& item = value.items[i];
      if (item.kind == Value::Kind::map && !fits_line(item)) {
        text_ += " ";
        continues_ = true;
        write(item, item.where, indent + 2);
      } else {
        child(item, item.where, indent);
      }
    }
  }

  std::string take() { return std::move(text_); }

 private:
  void start_line(size_t indent) {
    if (!continues_) text_.append(indent, ' ');
    continues_ = false;
  }

  void child(const Value& value, const Location& where, size_t indent) {
    text_ += fits_line(value) ? " " : "\n";
    write(value, where, indent + 2);
  }

  void leaf(const Value& value, const Location& where) {
    text_ += on_one_line(value);
    if (sources_ && !where.file.empty()) text_ += "  # " + to_string(where);
    text_ += "\n";
  }

  bool sources_;
  bool continues_ = false;
  std::string text_;
};

void add_leaves(const Value& value, const std::string& path, std::map<std::string, std::string>& leaves) {
  if (fits_line(value)) {
    leaves[path] = on_one_line(value);
    return;
  }
  for (const Value::Entry& entry : value.entries)
    add_leaves(entry.value, path.empty() ? entry.key : path + "." + entry.key, leaves);
  for (size_t i = 0; i < value.items.size(); ++i)
    add_leaves(value.items[i], fmt::format("{}[{}]", path, i), leaves);
}

}  // namespace

std::map<std::string, std::string> leaves(const Value& value) {
  std::map<std::string, std::string> all;
  add_leaves(value, "", all);
  return all;
}

std::string to_flow(const Value& value) {
  return on_one_line(value);
}

std::string to_yaml(const Value& value, bool sources) {
  Writer writer(sources);
  writer.write(value, value.where, 0);
  return writer.take();
}

}  // namespace trainer
