// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

#include <map>
#include <optional>
#include <string>

namespace trainer::test {

/// Sets environment variables, and restores them at the end of the test.
class Environment {
 public:
  void set(const std::string& name, const char* value) {
    const char* now = ::getenv(name.c_str());
    before_.emplace(name, now == nullptr ? std::optional<std::string>() : now);
    put(name, value);
  }
  ~Environment() {
    for (const auto& [name, value] : before_) put(name, value ? value->c_str() : nullptr);
  }

 private:
  static void put(const std::string& name, const char* value) {
    value == nullptr ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value, 1);
  }
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace trainer::test
