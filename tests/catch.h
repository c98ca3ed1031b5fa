// SPDX-License-Identifier: Apache-2.0
#pragma once

// Catch2 3, or 2 under the names that 3 has.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

using Catch::Approx;
#else
#include <catch2/catch.hpp>
#include <string>

namespace Catch::Matchers {

inline auto ContainsSubstring(const std::string& text) {
  return Contains(text);
}

}  // namespace Catch::Matchers
#endif
