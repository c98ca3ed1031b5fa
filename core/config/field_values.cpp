// SPDX-License-Identifier: Apache-2.0
#include "core/config/field_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "core/config/fields.h"
#include "core/config/messages.h"

namespace trainer {
namespace {

/// Parses the whole of `text` (a leading '+' allowed), independent of the locale; the error says why not.
template <class T>
std::errc parse_whole(std::string_view text, T& out) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), out);
  return end == text.data() + text.size() ? status : std::errc::invalid_argument;
}

// parse(): reads a scalar, returns what was expected where it is not that, else nothing.

std::string parse(const Value& value, bool& out) {
  if (value.quoted || (value.text != "true" && value.text != "false")) return "true or false";
  out = value.text == "true";
  return "";
}

std::string parse(const Value& value, double& out) {
  if (value.quoted) return "a number";
  const std::errc status = parse_whole(value.text, out);
  if (status == std::errc::result_out_of_range) return "a number within the range of 64-bit floating point";
  if (status != std::errc{}) return "a number";
  return std::isfinite(out) ? "" : "a finite number";
}

/// Also whole numbers such as 1e6, as far as a double holds them exactly.
std::string parse(const Value& value, int64_t& out) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.quoted) return "an integer";
  const std::errc status = parse_whole(value.text, out);
  if (status == std::errc{}) return "";
  if (status == std::errc::result_out_of_range) return "an integer within 64 bits";
  double number = 0;
  if (!parse(value, number).empty() || std::trunc(number) != number || std::abs(number) > kExact)
    return "an integer";
  out = static_cast<int64_t>(number);
  return "";
}

std::string parse(const Value& value, std::string& out) {
  out = value.text;
  return "";
}

std::string parse(const Value& value, Duration& out) {
  const auto parsed = parse_duration(value.text);
  if (parsed) out = *parsed;
  return parsed ? "" : "a duration such as 10ep (epochs) or 500ba (batches)";
}

std::string parse(const Value& value, ByteSize& out) {
  const auto parsed = parse_byte_size(value.text);
  if (parsed) out = *parsed;
  return parsed ? "" : "a size such as 512MiB or 80GiB";
}

std::string parse(const Value& value, AutoCount& out) {
  int64_t count = 0;
  out.count.reset();
  if (value.text == "auto") return "";
  const std::string expected = parse(value, count);
  if (expected.empty()) out.count = count;
  return expected.empty() ? "" : expected + " or auto";
}

// article(): what a value that is no scalar should have been.
const char* article(bool) {
  return "true or false";
}
const char* article(int64_t) {
  return "an integer";
}
const char* article(double) {
  return "a number";
}
const char* article(const std::string&) {
  return "text";
}
const char* article(const Duration&) {
  return "a duration such as 10ep or 500ba";
}
const char* article(const ByteSize&) {
  return "a size such as 512MiB or 80GiB";
}

const char* article(const AutoCount&) {
  return "an integer or auto";
}

const char* plural(int64_t) {
  return "integers";
}
const char* plural(double) {
  return "numbers";
}
const char* plural(const std::string&) {
  return "texts";
}

// measure(): the number that bounds apply to.
std::optional<double> measure(bool) {
  return std::nullopt;
}
std::optional<double> measure(const std::string&) {
  return std::nullopt;
}
std::optional<double> measure(int64_t number) {
  return static_cast<double>(number);
}
std::optional<double> measure(double number) {
  return number;
}
std::optional<double> measure(const Duration& duration) {
  return static_cast<double>(duration.count);
}
std::optional<double> measure(const ByteSize& size) {
  return static_cast<double>(size.bytes);
}

std::optional<double> measure(const AutoCount& maybe) {
  return maybe.count ? measure(*maybe.count) : std::nullopt;
}

bool is_outside(const Field& field, double number) {
  const bool low =
      field.minimum && (field.minimum_excluded ? number <= *field.minimum : number < *field.minimum);
  const bool high =
      field.maximum && (field.maximum_excluded ? number >= *field.maximum : number > *field.maximum);
  return low || high;
}

/// Visits a field's target with a value for it.
class FieldReader {
 public:
  FieldReader(const Field& field, const Value& value, const Origin& origin, Reading& reading)
      : field_(field), value_(value), origin_(origin), reading_(reading) {}

  template <class T>
  void operator()(T* target) {
    read_one(value_, origin_, *target);
  }

  template <class T>
  void operator()(std::optional<T>* target) {
    T fresh{};
    if (value_.kind == Value::Kind::null) {
      target->reset();
    } else if (read_one(value_, origin_, fresh)) {
      *target = fresh;
    }
  }

  template <class T>
  void operator()(std::vector<T>* target) {
    if (value_.kind != Value::Kind::list) return expected(std::string("a list of ") + plural(T{}));
    std::vector<T> fresh(value_.items.size());
    bool right = true;
    for (size_t i = 0; i < fresh.size(); ++i) right &= read_item(i, fresh[i]);
    if (right) *target = std::move(fresh);
  }

  void operator()(Pair* target) {
    const bool is_two = value_.kind == Value::Kind::list && value_.items.size() == 2;
    if (value_.kind == Value::Kind::list && !is_two) {
      const size_t size = value_.items.size();
      return reading_.error(origin_,
                            fmt::format("expected an integer or a list of two, found a list of {}", size));
    }
    if (!is_two && value_.kind != Value::Kind::scalar) return expected("an integer or a list of two");
    Pair fresh{};
    bool right = true;
    if (is_two) {
      for (size_t i = 0; i < 2; ++i) right &= read_item(i, fresh[i]);
    } else {
      right = read_one(value_, origin_, fresh[0]);
      fresh[1] = fresh[0];
    }
    if (right) *target = fresh;
  }

 private:
  void expected(const std::string& what) {
    reading_.error(origin_, fmt::format("expected {}, found {}", what, describe(value_)));
  }

  template <class T>
  bool read_item(size_t i, T& out) {
    const Value& item = value_.items[i];
    return read_one(item, {item.where, fmt::format("{}[{}]", origin_.path, i)}, out);
  }

  template <class T>
  bool read_one(const Value& value, const Origin& origin, T& out) {
    if (value.reported) return false;
    T fresh{};
    const std::string what = value.kind == Value::Kind::scalar ? parse(value, fresh) : article(fresh);
    if (!what.empty()) {
      reading_.error(origin, fmt::format("expected {}, found {}", what, describe(value)));
      return false;
    }
    if (!is_allowed(value, origin, measure(fresh))) return false;
    out = fresh;
    return true;
  }

  bool is_allowed(const Value& value, const Origin& origin, std::optional<double> number) {
    if (number && is_outside(field_, *number)) {
      reading_.error(origin, fmt::format("must be {}, got {}", field_.bound_text(), shown(value.text)));
      return false;
    }
    const bool listed_name = field_.names.empty() || std::find(field_.names.begin(), field_.names.end(),
                                                               value.text) != field_.names.end();
    if (listed_name) return true;
    const auto near = nearest(value.text, field_.names);
    reading_.error(origin, fmt::format("expected {}; found {}{}", field_.bound_text(), describe(value),
                                       near ? fmt::format("; did you mean '{}'?", *near) : ""));
    return false;
  }

  const Field& field_;
  const Value& value_;
  const Origin& origin_;
  Reading& reading_;
};

Value scalar(const std::string& text) {
  Value value;
  value.kind = Value::Kind::scalar;
  value.text = value.raw = text;
  return value;
}

Value to_value(bool flag) {
  return scalar(flag ? "true" : "false");
}
Value to_value(int64_t number) {
  return scalar(fmt::format("{}", number));
}
Value to_value(double number) {
  return scalar(fmt::format("{}", number));
}
Value to_value(const Duration& duration) {
  return scalar(to_string(duration));
}
Value to_value(const ByteSize& size) {
  return scalar(to_string(size));
}

Value to_value(const AutoCount& maybe) {
  return maybe.count ? to_value(*maybe.count) : scalar("auto");
}

/// Text that would read as something else is put in quotes.
Value to_value(const std::string& text) {
  Value value = scalar(text);
  bool flag = false;
  double number = 0;
  value.quoted = text.empty() || parse(value, flag).empty() || parse(value, number).empty();
  return value;
}

template <class T>
Value to_value(const std::optional<T>& maybe) {
  return maybe ? to_value(*maybe) : Value{};
}

template <class List>
Value to_list(const List& list) {
  Value value;
  value.kind = Value::Kind::list;
  for (const auto& item : list) value.items.push_back(to_value(item));
  return value;
}

template <class T>
Value to_value(const std::vector<T>& list) {
  return to_list(list);
}
Value to_value(const Pair& pair) {
  return to_list(pair);
}

}  // namespace

void read_value(const Field& field, const Value& value, const Origin& origin, Reading& reading) {
  if (!value.reported) std::visit(FieldReader(field, value, origin, reading), field.target);
}

Value current_value(const Field& field) {
  return std::visit([](const auto* target) { return to_value(*target); }, field.target);
}

}  // namespace trainer
