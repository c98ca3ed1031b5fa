// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainer {

/// Texts under keys of one line that outlast the process. They only save time: any may be gone.
class TextCache {
 public:
  virtual ~TextCache() = default;
  virtual std::optional<std::string> find(std::string_view key) = 0;
  virtual void put(std::string_view key, std::string_view text) = 0;
};

}  // namespace trainer
