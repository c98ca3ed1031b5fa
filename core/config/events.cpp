// SPDX-License-Identifier: Apache-2.0
#include "core/config/events.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <string_view>

namespace trainer {
namespace {

/// Bytes of the UTF-8 sequence at the start of `text`, 0 if it is not one.
size_t sequence_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7F ? 1 : lead == '\t' || lead == '\n' || lead == '\r';
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  uint32_t code = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte & 0x3Fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code >= kSmallest[length] && code <= 0x10FFFF && !surrogate ? length : 0;
}

/// The parser would read bytes that are not text, and silently take 0x04 for the end of the file.
void check_is_text(std::string_view text) {
  if (text.size() > kMaxBytes)
    throw Refusal{1, 1, fmt::format("a recipe has at most {} MiB", kMaxBytes >> 20)};
  int line = 1, column = 1;
  for (size_t i = 0; i < text.size();) {
    const size_t length = sequence_length(text.substr(i));
    if (length == 0) {
      throw Refusal{line, column,
                    fmt::format("expected UTF-8 text, found the byte 0x{:02X}; is this a YAML file?",
                                static_cast<unsigned char>(text[i]))};
    }
    column = text[i] == '\n' ? 1 : column + static_cast<int>(length);
    line += text[i] == '\n';
    i += length;
  }
}

/// The parser decodes two escapes into single bytes that are not characters.
bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = static_cast<unsigned char>(text[0]) < 0x80 ? 1 : sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

/// Writes down the events of one document and expands aliases within the budget.
class Recorder : public YAML::EventHandler {
 public:
  std::vector<Event> events;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (started_) {
      refuse(mark,
             "expected the end of the recipe, found text that does not belong to the map above; a recipe is "
             "one document");
    }
    started_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    leaf(Event::Kind::null, mark, anchor, "");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const bool is_text = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!is_text) refuse_tag(mark, tag);
    if (!is_utf8(text)) refuse(mark, "the escapes \\N and \\_ are not supported; write \\u0085 or \\u00A0");
    leaf(Event::Kind::scalar, mark, anchor, text);
    events.back().quoted = is_text;
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(mark, "an alias must not be inside the value it refers to");
    const Extent extent = found->second;
    charge(mark, extent.nodes, extent.bytes);
    events.reserve(events.size() + extent.end - extent.begin);
    for (size_t i = extent.begin; i < extent.end; ++i) {
      events.push_back(events[i]);
      events.back().copied = true;
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Event::Kind::list_start, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(Event::Kind::list_end); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Event::Kind::map_start, mark, tag, anchor);
  }
  void OnMapEnd() override { close(Event::Kind::map_end); }

 private:
  struct Extent {
    size_t begin, end;    // events of an anchored value
    size_t nodes, bytes;  // their cost
  };
  struct Open {
    YAML::anchor_t anchor;
    size_t begin, nodes, bytes;
  };

  [[noreturn]] static void refuse(const YAML::Mark& mark, const std::string& text) {
    throw Refusal{mark.line + 1, mark.column + 1, text};
  }

  static void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    refuse(mark, fmt::format("tags such as '{}' are not supported; leave it out", tag));
  }

  void charge(const YAML::Mark& mark, size_t nodes, size_t bytes) {
    nodes_ += nodes;
    bytes_ += bytes;
    if (nodes_ <= kMaxNodes && bytes_ <= kMaxBytes) return;
    refuse(mark,
           fmt::format("the recipe is too large: more than {} keys and values or {} MiB of text once its "
                       "aliases are expanded",
                       kMaxNodes, kMaxBytes >> 20));
  }

  void leaf(Event::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& text) {
    charge(mark, 1, text.size());
    events.push_back({kind, mark.line + 1, mark.column + 1, text});
    if (anchor != YAML::NullAnchor) anchors_[anchor] = {events.size() - 1, events.size(), 1, text.size()};
  }

  void open(Event::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    refuse_tag(mark, tag);
    if (open_.size() >= kMaxDepth) refuse(mark, fmt::format("nested deeper than {} levels", kMaxDepth));
    open_.push_back({anchor, events.size(), nodes_, bytes_});
    charge(mark, 1, 0);
    events.push_back({kind, mark.line + 1, mark.column + 1, ""});
  }

  void close(Event::Kind kind) {
    events.push_back({kind, 0, 0, ""});
    const Open opened = open_.back();
    open_.pop_back();
    if (opened.anchor == YAML::NullAnchor) return;
    anchors_[opened.anchor] = {opened.begin, events.size(), nodes_ - opened.nodes, bytes_ - opened.bytes};
  }

  bool started_ = false;
  size_t nodes_ = 0, bytes_ = 0;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Extent> anchors_;
};

/// Line `number` of `text`, counted from 1; empty if there is none.
std::string_view line_of(std::string_view text, int number) {
  for (; number > 1 && !text.empty(); --number) {
    const size_t end = text.find('\n');
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

/// The parser's error in helpful words; `last` is the last event before it, if any.
Refusal explain(const YAML::Mark& mark, std::string message, std::string_view text, const Event* last) {
  if (message == "illegal document indicator in scalar") {
    if (last == nullptr) return {1, 1, "a quoted text is never closed"};
    return {last->line, last->column, "a quoted text that starts after this place is never closed"};
  }
  Refusal refusal{mark.line + 1, mark.column + 1, ""};
  const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  const std::string_view line = line_of(text, std::min(refusal.line, lines));
  if (refusal.line > lines) refusal = {lines, static_cast<int>(line.size()) + 1, ""};  // the end of the text
  const size_t tab = line.substr(0, std::min(line.find_first_not_of(" \t"), line.size())).find('\t');
  if (tab != std::string_view::npos) {
    return {refusal.line, static_cast<int>(tab) + 1, "expected spaces as indentation, found a tab"};
  }
  if (message == "illegal map value") {
    message = "unexpected ':'; check the indentation, and put text that holds ': ' in quotes";
  }
  refusal.text = "not valid YAML: " + message;
  if (message == "end of map flow not found" && line.find("${env:") != std::string_view::npos) {
    refusal.text += "; inside { } a text with ${env:...} needs quotes";
  }
  return refusal;
}

}  // namespace

std::vector<Event> read_events(const std::string& text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view body = text;
  if (body.starts_with(kByteOrderMark)) body.remove_prefix(kByteOrderMark.size());
  check_is_text(body);
  if (body.empty()) return {};

  // The parser accepts an unclosed quote at the end of the file, but not before "...".
  std::string closed(body);
  if (closed.back() != '\n') closed += '\n';
  std::istringstream stream(closed + "...\n");
  Recorder recorder;
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(recorder)) {
    }
  } catch (const YAML::Exception& problem) {
    const Event* last = recorder.events.empty() ? nullptr : &recorder.events.back();
    throw explain(problem.mark, problem.msg, closed, last);
  }
  return std::move(recorder.events);
}

}  // namespace trainer
