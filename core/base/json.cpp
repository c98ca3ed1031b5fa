// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace trainer {

using Library = nlohmann::ordered_json;

namespace {

constexpr size_t kDeepest = 100;

/// The value as T; `what` names it in messages.
template <class T, class Value>
auto& require(Value& value, const char* what) {
  auto* found = std::get_if<T>(&value);
  if (found == nullptr) throw std::logic_error(std::string("a value of JSON is not ") + what);
  return *found;
}

/// The handler that the library's parser calls; builds the value from the outside in.
class Builder final : public nlohmann::json_sax<Library> {
 public:
  Json take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& value) override {
    key_.push_back(std::move(value));
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    problem_ = error.what();
    return false;
  }

 private:
  bool add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().push_back(std::move(value));
    } else {
      open_.back().add(std::move(key_.back()), std::move(value));
      key_.pop_back();
    }
    return true;
  }
  bool open(Json value) {
    if (open_.size() == kDeepest) problem_ = "it is nested too deeply";
    open_.push_back(std::move(value));
    return problem_.empty();
  }
  bool close() {
    Json value = std::move(open_.back());
    open_.pop_back();
    return add(std::move(value));
  }

  Json root_;
  std::vector<Json> open_;
  std::vector<std::string> key_;  // of each object that is open
  std::string problem_;
};

}  // namespace

/// Writes values as the library does. The library formats scalars only: to write nested values it needs
/// memory, and ends the process if it gets none.
class JsonWriter {
 public:
  JsonWriter(int indent, Json::NotUtf8 bytes)
      : indent_(indent),
        bytes_(bytes == Json::NotUtf8::replace ? Library::error_handler_t::replace
                                               : Library::error_handler_t::strict) {}

  void write(const Json& value) { std::visit(*this, value.value_); }
  std::string take() { return std::move(text_); }

  template <class T>
  void operator()(const T& value) {
    text_ += Library(value).dump(-1, ' ', false, bytes_);
  }
  void operator()(const Json::Items& items) {
    write_list('[', items, ']', [this](const Json& item) { write(item); });
  }
  void operator()(const Json::Members& members) {
    write_list('{', members, '}', [this](const Json::Member& member) {
      (*this)(member.first);
      text_ += indent_ < 0 ? ":" : ": ";
      write(member.second);
    });
  }

 private:
  template <class List, class Write>
  void write_list(char first, const List& list, char last, const Write& write_one) {
    text_ += first;
    ++depth_;
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) text_ += ',';
      end_line();
      write_one(list[i]);
    }
    --depth_;
    if (!list.empty()) end_line();
    text_ += last;
  }
  void end_line() {
    if (indent_ < 0) return;
    text_ += '\n';
    text_.append(static_cast<size_t>(depth_) * static_cast<size_t>(indent_), ' ');
  }

  int indent_, depth_ = 0;
  Library::error_handler_t bytes_;
  std::string text_;
};

Json::Json(bool value) : value_(value) {}
Json::Json(int64_t value) : value_(value) {}
Json::Json(uint64_t value) {
  if (value <= INT64_MAX) {
    value_ = static_cast<int64_t>(value);
  } else {
    value_ = value;
  }
}
Json::Json(double value) : value_(value) {}
Json::Json(std::string value) : value_(std::move(value)) {}
Json::Json(std::string_view value) : value_(std::string(value)) {}
Json::Json(const char* value) : value_(std::string(value)) {}
Json::Json(std::initializer_list<Json> items) {
  const bool all_pairs = std::ranges::all_of(items, [](const Json& item) {
    return item.is_array() && item.size() == 2 && item.items().front().is_text();
  });
  *this = all_pairs ? object() : array(items);
  if (all_pairs) {
    for (const Json& item : items) add(item.items()[0].text(), item.items()[1]);
  }
}
Json Json::array(std::initializer_list<Json> items) {
  Json json;
  json.value_ = Items(items);
  return json;
}
Json Json::object() {
  Json json;
  json.value_ = Members();
  return json;
}

Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

std::optional<Json> Json::parse(std::string_view text, std::string* problem) {
  Builder builder;
  if (Library::sax_parse(text, &builder)) return builder.take();
  if (problem != nullptr) *problem = builder.problem();
  return std::nullopt;
}

std::string Json::dump(int indent, NotUtf8 bytes) const {
  JsonWriter writer(indent, bytes);
  writer.write(*this);
  return writer.take();
}

bool Json::is_null() const {
  return std::holds_alternative<std::nullptr_t>(value_);
}
bool Json::is_boolean() const {
  return std::holds_alternative<bool>(value_);
}
bool Json::is_number() const {
  return is_whole() || std::holds_alternative<double>(value_);
}
bool Json::is_whole() const {
  return std::holds_alternative<int64_t>(value_) || std::holds_alternative<uint64_t>(value_);
}
bool Json::is_text() const {
  return std::holds_alternative<std::string>(value_);
}
bool Json::is_array() const {
  return std::holds_alternative<Items>(value_);
}
bool Json::is_object() const {
  return std::holds_alternative<Members>(value_);
}

bool Json::boolean() const {
  return require<bool>(value_, "true or false");
}
double Json::number() const {
  if (const auto* whole = std::get_if<int64_t>(&value_)) return static_cast<double>(*whole);
  if (const auto* large = std::get_if<uint64_t>(&value_)) return static_cast<double>(*large);
  return require<double>(value_, "a number");
}
std::optional<int64_t> Json::integer() const {
  const auto* whole = std::get_if<int64_t>(&value_);
  return whole == nullptr ? std::nullopt : std::optional(*whole);
}
const std::string& Json::text() const {
  return require<std::string>(value_, "text");
}
const std::vector<Json>& Json::items() const {
  return require<Items>(value_, "an array");
}
const std::vector<Json::Member>& Json::members() const {
  return require<Members>(value_, "an object");
}

size_t Json::size() const {
  if (is_null()) return 0;
  return is_object() ? members().size() : items().size();
}

const Json* Json::find(std::string_view key) const {
  const auto* all = std::get_if<Members>(&value_);
  if (all == nullptr) return nullptr;
  const auto found =
      std::find_if(all->rbegin(), all->rend(), [&](const Member& m) { return m.first == key; });
  return found == all->rend() ? nullptr : &found->second;
}
const Json& Json::operator[](std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) throw std::logic_error("JSON without the member " + std::string(key));
  return *found;
}
const Json& Json::operator[](size_t index) const {
  return items().at(index);
}
Json& Json::operator[](std::string_view key) {
  if (!contains(key)) add(std::string(key), nullptr);
  return const_cast<Json&>(*find(key));
}
void Json::add(std::string key, Json value) {
  if (is_null()) value_ = Members();
  require<Members>(value_, "an object").emplace_back(std::move(key), std::move(value));
}
void Json::erase(std::string_view key) {
  std::erase_if(require<Members>(value_, "an object"), [&](const Member& m) { return m.first == key; });
}
void Json::push_back(Json item) {
  if (is_null()) value_ = Items();
  require<Items>(value_, "an array").push_back(std::move(item));
}
void Json::push_front(Json item) {
  Items& all = require<Items>(value_, "an array");
  all.insert(all.begin(), std::move(item));
}
void Json::sort() {
  if (auto* all = std::get_if<Items>(&value_)) {
    for (Json& item : *all) item.sort();
  }
  if (auto* all = std::get_if<Members>(&value_)) {
    std::map<std::string, Json> sorted;
    for (auto& [key, value] : *all) {
      value.sort();
      sorted[key] = std::move(value);
    }
    all->clear();
    for (auto& [key, value] : sorted) all->emplace_back(key, std::move(value));
  }
}

}  // namespace trainer
