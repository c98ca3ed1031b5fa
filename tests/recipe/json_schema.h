// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/config/value.h"

namespace trainer {

/// YAML as an editor sees it: words of JSON, numbers and texts.
nlohmann::json to_json(const Value& value);

/// What a JSON Schema has against an instance, one line each: "path: why". Throws std::logic_error for a
/// keyword that is not known here, wherever in the schema it stands.
class JsonSchema {
 public:
  explicit JsonSchema(const std::string& text);
  ~JsonSchema();

  /// Against the whole schema, or one of its definitions.
  std::vector<std::string> complaints(const nlohmann::json& instance,
                                      const std::string& definition = "") const;
  /// Where a `default` does not satisfy its own schema.
  std::vector<std::string> wrong_defaults() const;

 private:
  std::unique_ptr<nlohmann::json> root_;
};

}  // namespace trainer
