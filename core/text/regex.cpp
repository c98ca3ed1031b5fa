// SPDX-License-Identifier: Apache-2.0
#include "core/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/core.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <new>
#include <optional>
#include <span>

#include "core/base/error.h"
#include "core/text/regex_syntax.h"
#include "core/text/utf8.h"

namespace trainer {
namespace {

/// Steps of backtracking from one position of a text, so that no file makes a run hang. Nearly all positions
/// need few; one that needs more is tried again with the next limit.
constexpr std::array<uint32_t, 3> kStepLimits = {1'000, 100'000, 10'000'000};

/// Total steps that a text may spend on such positions, in addition to some for each of its bytes.
constexpr int64_t kSpareSteps = 10'000'000, kStepsOfByte = 100;

struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR bytes_of(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

/// PCRE2's allocations for a pattern.
struct Regex::Code {
  pcre2_compile_context* settings = pcre2_compile_context_create(nullptr);
  std::array<pcre2_match_context*, kStepLimits.size()> limits{};
  pcre2_code* compiled = nullptr;

  Code() {
    for (size_t i = 0; i < limits.size(); ++i) {
      limits[i] = pcre2_match_context_create(nullptr);
      if (limits[i] != nullptr) pcre2_set_match_limit(limits[i], kStepLimits[i]);
    }
  }
  ~Code() {
    pcre2_code_free(compiled);
    for (pcre2_match_context* each : limits) pcre2_match_context_free(each);
    pcre2_compile_context_free(settings);
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
};

Regex::Regex(const std::string& pattern, const std::string& place)
    : place_(place), code_(std::make_unique<Code>()) {
  const std::string text = pcre2_pattern(pattern, place);
  if (code_->settings == nullptr || std::ranges::count(code_->limits, nullptr) > 0) throw std::bad_alloc();
  pcre2_set_newline(code_->settings, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  // Without PCRE2_MULTILINE `^` would match at the text's beginning alone.
  code_->compiled = pcre2_compile(bytes_of(text), text.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
                                  &error, &at, code_->settings);
  if (code_->compiled == nullptr) {
    throw Error(ExitCode::recipe,
                fmt::format("{}: expected a regular expression, found {}: {} at offset {} of {}", place,
                            pattern, message_of(error), at, text));
  }
  // If the processor has no JIT, the interpreter matches.
  pcre2_jit_compile(code_->compiled, PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;

namespace {

/// Matches one pattern on one text, within the text's limit of steps.
class Matcher {
 public:
  Matcher(const pcre2_code* code, std::span<pcre2_match_context* const> limits, std::string_view text)
      : code_(code),
        limits_(limits),
        text_(text),
        match_(pcre2_match_data_create_from_pattern(code, nullptr)),
        spare_(kSpareSteps + kStepsOfByte * static_cast<int64_t>(text.size())) {
    if (!match_) throw std::bad_alloc();
  }

  /// PCRE2's result for the first match from `at` on.
  int find(size_t at) {
    int result = match(at, 0, 0);
    if (result != PCRE2_ERROR_MATCHLIMIT) return result;
    for (;; next_code_point(text_, at)) {
      result = match_patiently(at);
      if (result != PCRE2_ERROR_NOMATCH || at == text_.size()) return result;
    }
  }
  size_t begin() const { return pcre2_get_ovector_pointer(match_.get())[0]; }
  size_t end() const { return pcre2_get_ovector_pointer(match_.get())[1]; }

 private:
  int match(size_t at, uint32_t options, size_t limit) {
    const auto with = [&](uint32_t more) {
      return pcre2_match(code_, bytes_of(text_), text_.size(), at, PCRE2_NO_UTF_CHECK | options | more,
                         match_.get(), limits_[limit]);
    };
    const int result = with(0);
    return result == PCRE2_ERROR_JIT_STACKLIMIT ? with(PCRE2_NO_JIT) : result;
  }

  /// At this position only: PCRE2 restarts its count of steps at each position.
  int match_patiently(size_t at) {
    int result = PCRE2_ERROR_MATCHLIMIT;
    for (size_t i = 0; i < limits_.size() && result == PCRE2_ERROR_MATCHLIMIT && spare_ >= 0; ++i) {
      result = match(at, PCRE2_ANCHORED, i);
      if (result == PCRE2_ERROR_MATCHLIMIT) spare_ -= kStepLimits[i];
    }
    return result;
  }

  const pcre2_code* code_;
  std::span<pcre2_match_context* const> limits_;
  std::string_view text_;
  std::unique_ptr<pcre2_match_data, FreeMatch> match_;
  int64_t spare_;
};

}  // namespace

void Regex::find_all(std::string_view text,
                     const std::function<void(size_t begin, size_t end)>& found) const {
  Matcher matcher(code_->compiled, code_->limits, text);
  std::optional<size_t> last_end;
  for (size_t at = 0; at <= text.size();) {
    const int result = matcher.find(at);
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0) {
      throw Error(
          ExitCode::data,
          fmt::format("{}: the pattern cannot be matched on this text: {}; shorten the text's longest line",
                      place_, message_of(result)));
    }
    const size_t begin = matcher.begin(), end = matcher.end();
    if (begin == end && last_end == end) {
      if (at == text.size()) return;
      next_code_point(text, at);
      continue;
    }
    found(begin, end);
    at = end;
    last_end = at;
  }
}

std::string literal_pattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace trainer
