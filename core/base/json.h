// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/variant.h"

namespace trainer {

/// A JSON value. An object keeps its members in insertion order. Accessing the value as another type throws
/// std::logic_error.
class Json {
 public:
  using Member = std::pair<std::string, Json>;
  /// Handling of bytes that are not UTF-8: std::exception, or U+FFFD instead.
  enum class NotUtf8 { refuse, replace };

  Json() = default;
  // A value is written in C++ as JSON writes it. NOLINTBEGIN(google-explicit-constructor)
  Json(std::nullptr_t) {}
  Json(bool value);
  Json(int64_t value);
  Json(uint64_t value);
  Json(double value);
  Json(std::string value);
  Json(std::string_view value);
  Json(const char* value);
  template <std::signed_integral T>
  Json(T value) : Json(int64_t{value}) {}
  template <std::unsigned_integral T>
  Json(T value) : Json(uint64_t{value}) {}
  template <class T>
  Json(const T* value) = delete;  // it would be a truth value
  template <class T, size_t N>
  Json(const std::array<T, N>& items) : Json(array()) {
    for (const T& item : items) push_back(item);
  }
  /// An array of both.
  template <class A, class B>
  Json(const std::pair<A, B>& both) : Json(array({both.first, both.second})) {}
  template <class T>
  Json(const std::vector<T>& items) : Json(array()) {
    for (const T& item : items) push_back(item);
  }
  template <class T>
  Json(const std::map<std::string, T>& members) : Json(object()) {
    for (const auto& [key, value] : members) add(key, value);
  }
  /// An object if each item is a pair of a text and a value, else an array.
  Json(std::initializer_list<Json> items);
  // NOLINTEND(google-explicit-constructor)
  static Json array(std::initializer_list<Json> items = {});
  static Json object();

  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  /// Nothing if the text is not JSON, or nested more than 100 deep; `problem`, if given, then receives
  /// the reason. Of members of the same name the last counts.
  static std::optional<Json> parse(std::string_view text, std::string* problem = nullptr);
  /// The same; null if the text is not JSON.
  static Json parse_or_null(std::string_view text) { return parse(text).value_or(Json()); }
  /// On one line, or with each level indented by this number of blanks.
  std::string dump(int indent = -1, NotUtf8 bytes = NotUtf8::refuse) const;

  bool is_null() const;
  bool is_boolean() const;
  bool is_number() const;
  bool is_text() const;
  bool is_array() const;
  bool is_object() const;

  bool boolean() const;
  double number() const;
  /// Whether it is a number without a fraction, whether or not it fits into 64 bits.
  bool is_whole() const;
  /// A whole number that fits; nothing for any other value.
  std::optional<int64_t> integer() const;
  const std::string& text() const;
  const std::vector<Json>& items() const;      ///< of an array
  const std::vector<Member>& members() const;  ///< of an object

  size_t size() const;  ///< of an array or object; null has none
  bool empty() const { return size() == 0; }

  /// A member; nullptr if it is missing or this is not an object.
  const Json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const Json& operator[](std::string_view key) const;
  const Json& operator[](const char* key) const { return (*this)[std::string_view(key)]; }
  const Json& operator[](size_t index) const;
  /// Adds the member if it is missing. A null value becomes an object.
  Json& operator[](std::string_view key);
  Json& operator[](const char* key) { return (*this)[std::string_view(key)]; }
  /// Adds without looking for a member of this name.
  void add(std::string key, Json value);
  void erase(std::string_view key);
  /// Appends an item. A null value becomes an array.
  void push_back(Json item);
  void push_front(Json item);
  /// Orders the members by name, those of values inside too; of several with one name the last stays.
  void sort();

 private:
  friend class JsonWriter;
  using Items = std::vector<Json>;
  using Members = std::vector<Member>;

  Variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, Items, Members> value_;
};

}  // namespace trainer
