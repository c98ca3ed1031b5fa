// SPDX-License-Identifier: Apache-2.0
#include "core/report/terminal_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>

namespace trainer {
namespace {

constexpr size_t kLabelWidth = 10;
constexpr size_t kDotsAcross = 2, kDotsDown = 4;  // of a character of Braille

/// The bits of Unicode's Braille patterns, by row and column of a character.
constexpr uint8_t kDot[kDotsDown][kDotsAcross] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

std::string braille(uint8_t dots) {
  // U+2800 + dots, as UTF-8.
  return {static_cast<char>(0xE2), static_cast<char>(0xA0 | (dots >> 6)),
          static_cast<char>(0x80 | (dots & 0x3F))};
}

/// Dots of an image, in characters.
class Dots {
 public:
  Dots(size_t width, size_t height) : width_(width), height_(height), cells_(width * height, 0) {}

  size_t across() const { return width_ * kDotsAcross; }
  size_t down() const { return height_ * kDotsDown; }

  void set(size_t x, size_t y) {
    cells_[y / kDotsDown * width_ + x / kDotsAcross] |= kDot[y % kDotsDown][x % kDotsAcross];
  }

  /// Sets the dots of a straight line. A run that rolls back moves to the left.
  void join(std::pair<size_t, size_t> from, std::pair<size_t, size_t> to) {
    const auto x = static_cast<double>(from.first), y = static_cast<double>(from.second);
    const double right = static_cast<double>(to.first) - x, down = static_cast<double>(to.second) - y;
    const double steps = std::max({1.0, std::fabs(right), std::fabs(down)});
    for (double i = 0; i <= steps; ++i)
      set(static_cast<size_t>(std::lround(x + right * i / steps)),
          static_cast<size_t>(std::lround(y + down * i / steps)));
  }

  /// Shows a letter in place of the dots around this one.
  void mark(size_t x, size_t y) { marked_.insert(y / kDotsDown * width_ + x / kDotsAcross); }

  std::string line(size_t row) const {
    std::string text;
    for (size_t i = 0; i < width_; ++i)
      text += marked_.contains(row * width_ + i) ? "o" : braille(cells_[row * width_ + i]);
    return text;
  }

 private:
  size_t width_, height_;
  std::vector<uint8_t> cells_;
  std::set<size_t> marked_;
};

/// The position of a value from `low` to `high` in 0 to count - 1. By halves, since the difference of two
/// numbers may be infinite.
size_t place(double value, double low, double high, size_t count) {
  const double range = high / 2 - low / 2;
  const double share = range > 0 ? (value / 2 - low / 2) / range : 0.5;
  return std::min(count - 1, static_cast<size_t>(std::lround(share * static_cast<double>(count - 1))));
}

}  // namespace

std::vector<std::string> terminal_chart(const std::string& title, const Points& points, size_t width,
                                        size_t height, const Points& marked, const std::string& axis) {
  double low = std::numeric_limits<double>::infinity(), high = -low, first = low, last = -low;
  for (const Points* all : {&points, &marked}) {
    for (const auto& [x, y] : *all) {
      if (!std::isfinite(y)) continue;
      low = std::min(low, y), high = std::max(high, y), first = std::min(first, x), last = std::max(last, x);
    }
  }
  first = std::min(first, 0.0);
  if (low > high || width <= kLabelWidth + 2 || height == 0) return {};
  Dots dots(width - kLabelWidth - 1, height);
  std::optional<std::pair<size_t, size_t>> before;
  for (const auto& [x, y] : points) {
    if (!std::isfinite(y)) continue;
    const std::pair to(place(x, first, last, dots.across()),
                       dots.down() - 1 - place(y, low, high, dots.down()));
    dots.join(before.value_or(to), to);
    before = to;
  }
  for (const auto& [x, y] : marked)
    if (std::isfinite(y))
      dots.mark(place(x, first, last, dots.across()), dots.down() - 1 - place(y, low, high, dots.down()));
  std::vector<std::string> lines = {title};
  for (size_t row = 0; row < height; ++row) {
    const std::string label = row == 0            ? fmt::format("{:.4g}", high)
                              : row == height - 1 ? fmt::format("{:.4g}", low)
                                                  : "";
    lines.push_back(fmt::format("{:>{}} {}", label, kLabelWidth, dots.line(row)));
  }
  const std::string begin = fmt::format("{} {:.8g}", axis, first), end = fmt::format("{:.8g}", last);
  const size_t room = width - kLabelWidth - 1;
  const size_t gap = room > begin.size() + end.size() ? room - begin.size() - end.size() : 1;
  lines.push_back(std::string(kLabelWidth + 1, ' ') + begin + std::string(gap, ' ') + end);
  return lines;
}

}  // namespace trainer
