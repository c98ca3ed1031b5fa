// SPDX-License-Identifier: Apache-2.0
#include "core/config/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/config/environment.h"
#include "core/config/events.h"
#include "core/config/fields.h"
#include "core/config/messages.h"

namespace trainer {
namespace {

/// Builds the tree from the events, and checks what a list of events cannot show.
class Builder {
 public:
  Builder(const std::vector<Event>& events, const Placing& place, Diagnostics& diagnostics)
      : events_(events), place_(place), diagnostics_(diagnostics) {}

  Value build(const std::string& path, int depth = 0) {
    const Event& event = events_[next_++];
    if (depth > kMaxDepth)
      throw Refusal{event.line, event.column, fmt::format("nested deeper than {} levels", kMaxDepth)};
    Value value;
    value.where = place_(event.line, event.column);
    switch (event.kind) {
      case Event::Kind::scalar:
        read_scalar(event, path, value);
        break;
      case Event::Kind::list_start:
        read_items(path, depth, value);
        break;
      case Event::Kind::map_start:
        read_entries(path, depth, value);
        break;
      default:
        break;
    }
    return value;
  }

 private:
  void error(const Event& event, const std::string& path, const std::string& text) {
    if (!event.copied) diagnostics_.error(place_(event.line, event.column), path, text);
  }

  void read_scalar(const Event& event, const std::string& path, Value& value) {
    value.kind = Value::Kind::scalar;
    value.text = value.raw = event.text;
    value.quoted = event.quoted;
    std::string problem = expand_environment(value.text);
    if (value.text.find('\0') != std::string::npos) problem = "a text may not hold a zero byte";
    if (problem.empty()) return;
    value.reported = true;
    error(event, path, problem);
  }

  void read_items(const std::string& path, int depth, Value& value) {
    value.kind = Value::Kind::list;
    while (events_[next_].kind != Event::Kind::list_end) {
      value.items.push_back(build(fmt::format("{}[{}]", path, value.items.size()), depth + 1));
    }
    ++next_;
  }

  void read_entries(const std::string& path, int depth, Value& value) {
    value.kind = Value::Kind::map;
    std::unordered_map<std::string, int> lines;
    while (events_[next_].kind != Event::Kind::map_end) {
      const Event& key = events_[next_];
      if (!is_key(key, path)) {
        build(path, depth + 1);
        build(path, depth + 1);
        continue;
      }
      ++next_;
      Value::Entry entry{key.text, place_(key.line, key.column), {}};
      entry.value = build(join_path(path, shown(key.text)), depth + 1);
      if (entry.value.kind == Value::Kind::null)
        entry.value.where = entry.where;  // the parser places it late
      const auto [first, is_new] = lines.emplace(key.text, key.line);
      if (is_new) {
        value.entries.push_back(std::move(entry));
      } else {
        error(key, path,
              fmt::format("duplicate key '{}', first given at line {}", shown(key.text), first->second));
      }
    }
    ++next_;
  }

  bool is_key(const Event& event, const std::string& path) {
    const bool scalar = event.kind == Event::Kind::scalar;
    if (!scalar) error(event, path, "expected a name as key, found " + std::string(kind_text(event.kind)));
    const bool merge = scalar && event.text == "<<" && !event.quoted;
    if (merge)
      error(event, path, "merge keys '<<' are not supported; write the keys out, or alias a whole value");
    return scalar && !merge;
  }

  static const char* kind_text(Event::Kind kind) {
    return kind == Event::Kind::null ? "nothing" : kind == Event::Kind::list_start ? "a list" : "a map";
  }

  const std::vector<Event>& events_;
  const Placing& place_;
  Diagnostics& diagnostics_;
  size_t next_ = 0;
};

}  // namespace

const Value* Value::find(const std::string& key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

std::optional<Value> parse_document(const std::string& text, const Placing& place, const std::string& path,
                                    Diagnostics& diagnostics) {
  try {
    const std::vector<Event> events = read_events(text);
    if (events.empty()) return std::nullopt;
    return Builder(events, place, diagnostics).build(path);
  } catch (const Refusal& refusal) {
    Value value;
    value.where = place(refusal.line, refusal.column);
    value.reported = true;
    diagnostics.error(value.where, path, refusal.text);
    return value;
  }
}

Value parse_yaml(const std::string& text, const std::string& file, Diagnostics& diagnostics) {
  const auto place = [&file](int line, int column) { return Location{file, line, column}; };
  const std::optional<Value> value = parse_document(text, place, "", diagnostics);
  if (value && (value->kind != Value::Kind::null || value->reported)) return *value;
  Value empty;
  empty.kind = Value::Kind::map;
  empty.where = place(1, 1);
  return empty;
}

namespace {

/// For a missing file: "; did you mean 'cnn.yaml'?" if its folder has a file with a similar name.
std::string nearest_file(const std::string& path) {
  constexpr size_t kMostFiles = 10'000;
  const std::filesystem::path wanted(path);
  const std::filesystem::path folder = wanted.has_parent_path() ? wanted.parent_path() : ".";
  std::vector<std::string> names;
  std::error_code unknown;
  for (std::filesystem::directory_iterator file(folder, unknown), end;
       !unknown && file != end && names.size() < kMostFiles; file.increment(unknown)) {
    const std::string ending = file->path().extension();
    if (ending == ".yaml" || ending == ".yml") names.push_back(file->path().filename());
  }
  std::ranges::sort(names);
  const auto name = nearest(wanted.filename(), names);
  if (!name) return "";
  return fmt::format("; did you mean '{}'?", shown((wanted.parent_path() / *name).string()));
}

}  // namespace

Value load_yaml(const std::string& path, const Location& mentioned_at, Diagnostics& diagnostics,
                const std::string& name) {
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  std::string text;
  std::array<char, 16384> piece;
  while (stream && text.size() <= kMaxBytes) {
    stream.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<size_t>(stream.gcount()));
  }
  if (!stream.is_open() || stream.bad() || (text.empty() && errno != 0)) {
    const int error = errno;
    if (error == ENOMEM) throw std::bad_alloc();
    const std::string problem =
        fmt::format("cannot read {}: {}{}", name.empty() ? "'" + shown(path) + "'" : name,
                    std::strerror(error), error == ENOENT && name.empty() ? nearest_file(path) : "");
    if (error == EIO) throw Error(ExitCode::io, problem);  // the recipe's contents are not involved
    diagnostics.error(mentioned_at, "", problem);
    Value value;
    value.where = mentioned_at;
    value.reported = true;
    return value;
  }
  return parse_yaml(text, path, diagnostics);
}

}  // namespace trainer
