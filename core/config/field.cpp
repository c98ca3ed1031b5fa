// SPDX-License-Identifier: Apache-2.0
#include "core/config/field.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/shape.h"
#include "core/config/field_values.h"
#include "core/config/messages.h"

namespace trainer {
namespace {

struct TypeName {
  std::string operator()(const bool*) const { return "boolean"; }
  std::string operator()(const int64_t*) const { return "integer"; }
  std::string operator()(const double*) const { return "number"; }
  std::string operator()(const std::string*) const { return "text"; }
  std::string operator()(const FilePath*) const { return "path"; }
  std::string operator()(const Duration*) const { return "duration"; }
  std::string operator()(const Cadence*) const { return "time or duration"; }
  std::string operator()(const TimeSpan*) const { return "time"; }
  std::string operator()(const ByteSize*) const { return "byte size"; }
  std::string operator()(const AutoCount*) const { return "integer or auto"; }
  std::string operator()(const FlagOrCount*) const { return "boolean or integer"; }
  std::string operator()(const NumbersOrBalanced*) const { return "list of numbers, or balanced"; }
  std::string operator()(const Value*) const { return "any"; }
  std::string operator()(const Pair*) const { return "integer or [height, width]"; }
  std::string operator()(const SideOrPair*) const { return (*this)(static_cast<const Pair*>(nullptr)); }
  template <class T>
  std::string operator()(const std::vector<T>*) const {
    return "list of " + (*this)(static_cast<const T*>(nullptr)) + "s";
  }
  template <class T>
  std::string operator()(const std::optional<T>*) const {
    return (*this)(static_cast<const T*>(nullptr)) + " or null";
  }
};

}  // namespace

Field& Field::at_least(double bound) {
  minimum = bound;
  minimum_excluded = false;
  return *this;
}

Field& Field::above(double bound) {
  minimum = bound;
  minimum_excluded = true;
  return *this;
}

Field& Field::at_most(double bound) {
  maximum = bound;
  maximum_excluded = false;
  return *this;
}

Field& Field::dimension(int64_t least) {
  return at_least(static_cast<double>(least)).at_most(static_cast<double>(kMaxDimension));
}

Field& Field::below(double bound) {
  maximum = bound;
  maximum_excluded = true;
  return *this;
}

Field& Field::one_of(std::vector<std::string> allowed) {
  names = std::move(allowed);
  return *this;
}

Field& Field::required() {
  is_required = true;
  return *this;
}

Field& Field::bare() {
  is_bare = true;
  return *this;
}

Field& Field::path_where(bool (*tells)(const std::string& text)) {
  is_path = tells;
  return *this;
}

Field& Field::or_one() {
  takes_one = true;
  return *this;
}

Field& Field::does_not_affect_results() {
  is_mathematics = false;
  return *this;
}

Field& Field::absent_as(const std::string& value) {
  absent_value = value;
  return *this;
}

Field& Field::left_to_samples() {
  is_left_to_samples = true;
  return *this;
}

std::string Field::type_text() const {
  return (takes_one ? "text or " : "") + std::visit(TypeName{}, target);
}

std::string Field::bound_text() const {
  if (!names.empty()) return "one of: " + listed(names);
  std::string text;
  if (minimum) text = fmt::format("{} {}", minimum_excluded ? "above" : "at least", *minimum);
  if (minimum && maximum) text += " and ";
  if (maximum) text += fmt::format("{} {}", maximum_excluded ? "below" : "at most", *maximum);
  return text;
}

std::string Field::current_text() const {
  std::string text = to_yaml(current_value(*this), false);
  text.pop_back();  // the end of the line
  return text;
}

std::string Field::default_text() const {
  return is_required ? "required" : current_text();
}

}  // namespace trainer
