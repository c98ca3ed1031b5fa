// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/prices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/split.h"

namespace trainer {
namespace {

/// Far above that of any device, so that no sum of prices overflows.
constexpr double kHighest = 1e9;

std::optional<double> price_in(std::string_view text) {
  double price = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), price);
  const bool is_price =
      problem == std::errc() && end == text.data() + text.size() && price >= 0 && price <= kHighest;
  return is_price ? std::optional(price) : std::nullopt;
}

}  // namespace

Prices read_prices(const std::vector<std::string>& given, const std::vector<std::string>& known) {
  Prices prices;
  for (const std::string& list : given) {
    for (const std::string& part : split(list, ',')) {
      const std::string word = trimmed(part);
      const size_t equals = word.rfind('=');
      const std::string name = word.substr(0, equals);
      const std::optional<double> price =
          equals == std::string::npos ? std::nullopt : price_in(std::string_view(word).substr(equals + 1));
      if (!price) {
        throw Error(ExitCode::usage,
                    fmt::format("--price: expected DEVICE=PRICE, a number from 0 to {:g} for each hour, "
                                "as in h100=2.5; got '{}'",
                                kHighest, one_line(word)));
      }
      if (std::ranges::find(known, name) == known.end()) {
        throw Error(ExitCode::usage, fmt::format("--price: unknown device '{}'; known are {}", one_line(name),
                                                 fmt::join(known, ", ")));
      }
      prices[name] = *price;
    }
  }
  return prices;
}

}  // namespace trainer
