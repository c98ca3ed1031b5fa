// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/config/value.h"

namespace trainer {

/// The violations of a JSON Schema by YAML, which it interprets as an editor does, one line each: "path:
/// why". Throws std::logic_error for an unsupported keyword, anywhere in the schema.
class JsonSchema {
 public:
  explicit JsonSchema(const std::string& text);
  ~JsonSchema();

  /// Against the whole schema, or one of its definitions.
  std::vector<std::string> complaints(const Value& instance, const std::string& definition = "") const;
  /// Places where a `default` does not satisfy its own schema.
  std::vector<std::string> wrong_defaults() const;

 private:
  struct Root;
  std::unique_ptr<Root> root_;
};

}  // namespace trainer
