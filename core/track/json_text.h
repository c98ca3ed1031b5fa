// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/base/json.h"

namespace trainer {

/// A text among an object's members; empty if there is none of that name.
inline std::string text_in(const Json& object, std::string_view key) {
  const Json* found = object.find(key);
  return found != nullptr && found->is_text() ? found->text() : "";
}

}  // namespace trainer
