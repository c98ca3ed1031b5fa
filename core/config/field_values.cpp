// SPDX-License-Identifier: Apache-2.0
#include "core/config/field_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "core/config/fields.h"
#include "core/config/messages.h"
#include "core/config/other_names.h"
#include "core/config/scalar_values.h"

namespace trainer {
namespace {

constexpr const char* kBalanced = "balanced";

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
    if constexpr (std::is_same_v<T, std::string>) {
      T one;
      if (field_.takes_one && value_.kind == Value::Kind::scalar) {
        if (read_one(value_, origin_, one)) *target = {std::move(one)};
        return;
      }
    }
    if (value_.kind != Value::Kind::list) return expected(std::string("a list of ") + plural(T{}));
    std::vector<T> fresh(value_.items.size());
    bool right = true;
    for (size_t i = 0; i < fresh.size(); ++i) right &= read_item(i, fresh[i]);
    if (right) *target = std::move(fresh);
  }

  void operator()(Value* target) { *target = value_; }

  void operator()(NumbersOrBalanced* target) {
    if (value_.kind == Value::Kind::scalar && value_.text == kBalanced) {
      *target = {.numbers = {}, .is_balanced = true};
    } else if (value_.kind == Value::Kind::list) {
      target->is_balanced = false;
      (*this)(&target->numbers);
    } else {
      expected("a list of numbers, or balanced");
    }
  }

  void operator()(Pair* target) {
    SideOrPair fresh;
    if (read_sides(fresh)) *target = fresh.sides;
  }

  void operator()(SideOrPair* target) {
    SideOrPair fresh;
    if (read_sides(fresh)) *target = fresh;
  }

 private:
  void expected(const std::string& what) {
    reading_.error(origin_, fmt::format("expected {}, found {}", what, describe(value_)));
  }

  /// An integer or a list of two.
  bool read_sides(SideOrPair& fresh) {
    const size_t size = value_.items.size();
    if (value_.kind == Value::Kind::list && size != 2) {
      reading_.error(origin_, fmt::format("expected an integer or a list of two, found a list of {}", size));
      return false;
    }
    fresh.is_pair = value_.kind == Value::Kind::list;
    if (fresh.is_pair) {
      const bool is_right = read_item(0, fresh.sides[0]);
      return read_item(1, fresh.sides[1]) && is_right;
    }
    if (value_.kind != Value::Kind::scalar) {
      expected("an integer or a list of two");
      return false;
    }
    const bool is_right = read_one(value_, origin_, fresh.sides[0]);
    fresh.sides[1] = fresh.sides[0];
    return is_right;
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
    if constexpr (std::is_same_v<T, FilePath>) {
      if (field_.is_path == nullptr || field_.is_path(value.text))
        fresh = resolve_path(value.text, value.where);
    }
    out = fresh;
    return true;
  }

  bool is_allowed(const Value& value, const Origin& origin, std::optional<double> number) {
    if (number && is_outside(field_, *number)) {
      reading_.error(origin, fmt::format("must be {}, got {}", field_.bound_text(), shown_text(value)));
      return false;
    }
    const bool listed_name = field_.names.empty() || std::find(field_.names.begin(), field_.names.end(),
                                                               value.text) != field_.names.end();
    if (listed_name) return true;
    const auto near = meant(value.text, field_.names);
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
template <class T>
requires requires {
  WithUnit<T>::kExpected;
}
Value to_value(const T& value) {
  return scalar(to_string(value));
}
Value to_value(const Value& value) {
  return value;
}
Value to_value(const AutoCount& maybe) {
  return maybe.count ? to_value(*maybe.count) : scalar("auto");
}

Value to_value(const FlagOrCount& maybe) {
  return maybe.count ? to_value(*maybe.count) : to_value(maybe.flag);
}

/// Text that would read as something else is put in quotes.
Value to_value(const std::string& text) {
  Value value = scalar(text);
  bool flag = false;
  double number = 0;
  value.quoted = text.empty() || parse(value, flag).empty() || parse(value, number).empty();
  return value;
}

Value to_value(const FilePath& path) {
  return to_value(path.written);
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
Value to_value(const SideOrPair& sides) {
  return sides.is_pair ? to_list(sides.sides) : to_value(sides.sides[0]);
}
Value to_value(const NumbersOrBalanced& weights) {
  return weights.is_balanced ? scalar(kBalanced) : to_list(weights.numbers);
}

}  // namespace

void read_value(const Field& field, const Value& value, const Origin& origin, Reading& reading) {
  if (!value.reported) std::visit(FieldReader(field, value, origin, reading), field.target);
}

Value current_value(const Field& field) {
  return std::visit([](const auto* target) { return to_value(*target); }, field.target);
}

}  // namespace trainer
