// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/run_name.h"

#include <fmt/format.h>

#include "core/base/printable.h"
#include "core/config/messages.h"

namespace trainer {

void check_is_name(const std::string& text, const Origin& origin, Diagnostics& diagnostics) {
  const bool leads_away =
      text.find('/') != std::string::npos || text.find_first_not_of('.') == std::string::npos;
  if (!leads_away && printable(text) == text && text.find('\n') == std::string::npos) return;
  diagnostics.error(origin,
                    fmt::format("expected a name that a directory's may contain, with more than dots and "
                                "without '/' and control characters, found '{}'",
                                shown(text)));
}

}  // namespace trainer
