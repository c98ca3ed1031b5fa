// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/variant.h"

namespace trainer {

class Operation;

/// Height and width.
using Size2d = std::array<int64_t, 2>;

/// A list of reals has one for each parameter that an optimiser updates.
using AttributeValue =
    Variant<bool, int64_t, double, std::string, Size2d, std::vector<int64_t>, std::vector<double>>;

/// How the text form of programs shows an attribute. It shows a bool by its name, and only if it is true.
struct AttributeStyle {
  bool hidden = false;  ///< a default value, or one that follows from the tensors' shapes
  bool named = true;    ///< NAME=VALUE; otherwise the value alone
  int digits = 0;       ///< of a real; 0: all
};

/// Takes the attributes of an operation one by one.
class AttributeVisitor {
 public:
  virtual ~AttributeVisitor() = default;
  /// Names are unique in an operation. One of a list of steps ends in a dot and the number of its step.
  void operator()(std::string_view name, const AttributeValue& value, const AttributeStyle& style = {}) {
    visit(name, value, style);
  }

 private:
  virtual void visit(std::string_view name, const AttributeValue& value, const AttributeStyle& style) = 0;
};

struct Attribute {
  std::string name;
  AttributeValue value;
  AttributeStyle style;
};

/// All attributes, hidden ones too, in the order in which the operation reports them.
std::vector<Attribute> attributes_of(const Operation& op);

/// As programs show them: "kernel=3x3 stride=1x1 padding=1x1 relu".
std::string attributes_text(const Operation& op);

}  // namespace trainer
