// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/trainer/prediction_format.h"
#include "core/base/printable.h"

namespace trainer {
namespace {

constexpr size_t kMostLabel = 20;
constexpr const char* kWrong = "wrong: ";

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
}

size_t characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

/// The first or last `count` characters.
std::string first(const std::string& text, size_t count) {
  size_t end = 0;
  for (; end < text.size(); ++end) {
    if (begins_character(text[end]) && count-- == 0) break;
  }
  return text.substr(0, end);
}
std::string last(const std::string& text, size_t count) {
  const size_t all = characters(text);
  return all <= count ? text : text.substr(first(text, all - count).size());
}

/// Cut off at its end or, a path, at its begin.
std::string fitted(const std::string& text, size_t width, bool is_path = false) {
  constexpr size_t kDots = 3;
  if (characters(text) <= width) return text;
  if (width <= kDots) return first(text, width);
  return is_path ? "..." + last(text, width - kDots) : first(text, width - kDots) + "...";
}

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, characters(text)), ' ');
}

/// The file, its label, and the prediction.
class TextTable final : public PredictionFormat {
 public:
  explicit TextTable(PredictionColumns columns) : columns_(std::move(columns)) {
    if (columns_.has_labels) {
      label_width_ = std::string("label").size();
      for (const std::string& name : columns_.class_names)
        label_width_ = std::max(label_width_, characters(one_line(name)));
      label_width_ = std::min(label_width_, kMostLabel) + 2;
    }
    const size_t most = columns_.width / 2 > label_width_ ? columns_.width / 2 - label_width_ : 1;
    name_width_ = std::clamp<size_t>(columns_.name_width, 6, std::max<size_t>(most, 6));
  }

  std::string head() const override {
    return row(columns_.has_files ? "file" : "sample", "label", "prediction");
  }

  std::string line(const PredictedSample& sample) const override {
    const std::string name = columns_.has_files ? one_line(sample.file) : std::to_string(sample.number);
    return row(name, one_line(label_text(sample, columns_.class_names)),
               (sample.is_wrong() ? kWrong : "") + one_line(prediction_text(sample, columns_.class_names)));
  }

 private:
  std::string row(const std::string& name, const std::string& label, const std::string& prediction) const {
    std::string text = padded(fitted(name, name_width_, true), name_width_ + 2);
    if (label_width_ > 0) text += padded(fitted(label, label_width_ - 2), label_width_);
    const size_t used = name_width_ + 2 + label_width_;
    return text + fitted(prediction, columns_.width > used ? columns_.width - used : 1) + "\n";
  }

  PredictionColumns columns_;
  size_t name_width_ = 0, label_width_ = 0;
};

}  // namespace

std::unique_ptr<PredictionFormat> table_format(PredictionColumns columns) {
  return std::make_unique<TextTable>(std::move(columns));
}

}  // namespace trainer
