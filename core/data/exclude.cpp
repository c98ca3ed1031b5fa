// SPDX-License-Identifier: Apache-2.0
#include "core/data/exclude.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"

namespace trainer {
namespace {

constexpr std::string_view kTrain = "train ", kVal = "val ";

/// A line that names a sample.
struct ExcludeLine {
  Split split;
  std::string_view name;
  int64_t number;  ///< of the line, from 1
};

class ExcludeReader {
 public:
  ExcludeReader(std::string_view text, const std::string& path) : left_(text), path_(path) {}

  std::optional<ExcludeLine> next() {
    while (!left_.empty()) {
      ++line_;
      const size_t end = std::min(left_.find('\n'), left_.size());
      std::string_view line = left_.substr(0, end);
      left_.remove_prefix(std::min(end + 1, left_.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty() || line.starts_with('#')) continue;
      for (const auto& [word, split] : {std::pair{kTrain, Split::train}, std::pair{kVal, Split::val}}) {
        if (line.starts_with(word) && line.size() > word.size())
          return ExcludeLine{split, line.substr(word.size()), line_};
      }
      fail(line_,
           fmt::format("expected train or val, a space, and a sample's name or number, found '{:.200}'",
                       one_line(std::string(line))));
    }
    return std::nullopt;
  }

  [[noreturn]] void fail(int64_t line, const std::string& message) const {
    throw Error(ExitCode::data, fmt::format("{}:{}: {}", one_line(path_), line, message));
  }

 private:
  std::string_view left_;
  const std::string& path_;
  int64_t line_ = 0;
};

std::optional<int64_t> number_below(std::string_view text, int64_t size) {
  int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
  return is_whole && number >= 0 && number < size ? std::optional(number) : std::nullopt;
}

/// Finds samples by their names.
class SampleNumbers {
 public:
  explicit SampleNumbers(const StoredSamples& samples) : samples_(samples) {
    for (int64_t i = 0; samples.name && i < samples.size; ++i) by_name_.emplace(samples.name(i), i);
  }
  std::optional<int64_t> find(std::string_view name) const {
    if (samples_.find) return samples_.find(name);
    if (!samples_.name) return number_below(name, samples_.size);
    const auto found = by_name_.find(std::string(name));
    return found == by_name_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string expected() const {
    if (samples_.find) return samples_.expected;
    return samples_.name ? "the path of an image below the folder of all"
                         : fmt::format("a number from 0 to {}", samples_.size - 1);
  }

 private:
  const StoredSamples& samples_;
  std::unordered_map<std::string, int64_t> by_name_;
};

const char* text_of(Split split) {
  return split == Split::train ? "train" : "val";
}

}  // namespace

std::vector<int64_t> parse_excluded(std::string_view text, const std::string& path,
                                    const StoredSamples& samples) {
  ExcludeReader reader(text, path);
  const SampleNumbers numbers(samples);
  std::map<int64_t, int64_t> line_of;  // by the sample's number
  while (const std::optional<ExcludeLine> line = reader.next()) {
    if (line->split == Split::val && !samples.has_val_file)
      reader.fail(
          line->number,
          "with data.val_fraction or data.fold, samples of validation are named as those of data.train: "
          "expected train and a name");
    if (line->split != samples.split) continue;
    const std::optional<int64_t> number = numbers.find(line->name);
    if (!number)
      reader.fail(line->number,
                  fmt::format("there is no sample '{:.200}' in data.{}: expected {}",
                              one_line(std::string(line->name)), text_of(samples.split), numbers.expected()));
    const auto [known, is_new] = line_of.emplace(*number, line->number);
    if (!is_new)
      reader.fail(line->number, fmt::format("'{:.200}' is named in line {} already; keep one of the lines",
                                            one_line(std::string(line->name)), known->second));
  }
  std::vector<int64_t> excluded;
  for (const auto& [number, line] : line_of) excluded.push_back(number);
  return excluded;
}

std::vector<int64_t> read_excluded(const std::string& path, const StoredSamples& samples) {
  const std::optional<std::string> text = read_text(path);
  if (!text) throw Error(ExitCode::data, fmt::format("data.exclude: there is no file {}", one_line(path)));
  return parse_excluded(*text, path, samples);
}

std::string exclude_line(Split split, const std::string& name) {
  const bool fits = !name.empty() && name.find('\n') == std::string::npos && !name.ends_with('\r');
  if (!fits)
    throw Error(ExitCode::data, fmt::format("the sample '{}' cannot be named in a line of a file; rename it",
                                            one_line(name)));
  return fmt::format("{} {}\n", text_of(split), name);
}

std::vector<int64_t> left_of(const std::vector<int64_t>& samples, const std::vector<int64_t>& excluded,
                             const std::string& path, Split split) {
  std::vector<int64_t> left;
  std::ranges::set_difference(samples, excluded, std::back_inserter(left));
  if (left.empty())
    throw Error(ExitCode::data, fmt::format("{} (data.exclude) leaves no sample for {}", one_line(path),
                                            split == Split::train ? "training" : "validation"));
  return left;
}

void leave_out(std::span<const int64_t> excluded, int64_t size, Fingerprint& fingerprint) {
  if (excluded.empty()) return;
  fingerprint[fingerprint_name::kSamples] = std::to_string(size - static_cast<int64_t>(excluded.size()));
  fingerprint[fingerprint_name::kExcluded] = fmt::format("{:016x}", checksum(std::as_bytes(excluded)));
}

}  // namespace trainer
