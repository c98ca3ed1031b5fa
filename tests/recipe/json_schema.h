// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/config/value.h"

namespace trainer {

/// What a JSON Schema has against YAML, which it sees as an editor does, one line each: "path: why". Throws
/// std::logic_error for a keyword that is not known here, wherever in the schema it stands.
class JsonSchema {
 public:
  explicit JsonSchema(const std::string& text);
  ~JsonSchema();

  /// Against the whole schema, or one of its definitions.
  std::vector<std::string> complaints(const Value& instance, const std::string& definition = "") const;
  /// Where a `default` does not satisfy its own schema.
  std::vector<std::string> wrong_defaults() const;

 private:
  struct Root;
  std::unique_ptr<Root> root_;
};

}  // namespace trainer
