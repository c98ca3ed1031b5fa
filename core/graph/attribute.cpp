// SPDX-License-Identifier: Apache-2.0
#include "core/graph/attribute.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/graph/operation.h"

namespace trainer {
namespace {

/// The text of a value, one overload for each type that an attribute may have.
struct ValueText {
  int digits = 0;

  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    return digits == 0 ? fmt::format("{}", value) : fmt::format("{:.{}g}", value, digits);
  }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const Size2d& value) const { return fmt::format("{}x{}", value[0], value[1]); }
  std::string operator()(const std::vector<int64_t>& values) const {
    return fmt::format("{}", fmt::join(values, ","));
  }
  /// "0.1", or "0.1 and 0" if parameters differ.
  std::string operator()(const std::vector<double>& values) const {
    std::vector<std::string> different;
    for (const double value : values) {
      const std::string text = (*this)(value);
      if (std::find(different.begin(), different.end(), text) == different.end()) different.push_back(text);
    }
    return fmt::format("{}", fmt::join(different, " and "));
  }
};

class TextWriter final : public AttributeVisitor {
 public:
  std::string text;

 private:
  void visit(std::string_view name, const AttributeValue& value, const AttributeStyle& style) override {
    const bool* flag = std::get_if<bool>(&value);
    if (style.hidden || (flag != nullptr && !*flag)) return;
    if (!text.empty()) text += ' ';
    const std::string_view shown = name.substr(0, name.find('.'));
    if (flag != nullptr || style.named) text += shown;
    if (flag != nullptr) return;
    if (style.named) text += '=';
    text += std::visit(ValueText{.digits = style.digits}, value);
  }
};

class Collector final : public AttributeVisitor {
 public:
  std::vector<Attribute> all;

 private:
  void visit(std::string_view name, const AttributeValue& value, const AttributeStyle& style) override {
    all.push_back({std::string(name), value, style});
  }
};

}  // namespace

std::vector<Attribute> attributes_of(const Operation& op) {
  Collector collector;
  op.describe(collector);
  return std::move(collector.all);
}

std::string attributes_text(const Operation& op) {
  TextWriter writer;
  op.describe(writer);
  return std::move(writer.text);
}

}  // namespace trainer
