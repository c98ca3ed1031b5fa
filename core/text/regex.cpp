// SPDX-License-Identifier: Apache-2.0
#include "core/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/core.h>
#include <pcre2.h>

#include <array>
#include <cctype>
#include <new>
#include <optional>

#include "core/base/error.h"
#include "core/text/regex_syntax.h"
#include "core/text/utf8.h"

namespace trainer {
namespace {

/// Of one match, so that no file makes a run hang.
constexpr uint32_t kMatchLimit = 10'000'000;

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

/// What PCRE2 allocates for a pattern.
struct Regex::Code {
  pcre2_compile_context* settings = pcre2_compile_context_create(nullptr);
  pcre2_match_context* limits = pcre2_match_context_create(nullptr);
  pcre2_code* compiled = nullptr;

  Code() = default;
  ~Code() {
    pcre2_code_free(compiled);
    pcre2_match_context_free(limits);
    pcre2_compile_context_free(settings);
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
};

Regex::Regex(const std::string& pattern, const std::string& place)
    : place_(place), code_(std::make_unique<Code>()) {
  const std::string text = pcre2_pattern(pattern, place);
  if (code_->settings == nullptr || code_->limits == nullptr) throw std::bad_alloc();
  pcre2_set_newline(code_->settings, PCRE2_NEWLINE_LF);
  pcre2_set_match_limit(code_->limits, kMatchLimit);
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
  // Where there is no JIT for a processor, the interpreter matches.
  pcre2_jit_compile(code_->compiled, PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;

void Regex::find_all(std::string_view text,
                     const std::function<void(size_t begin, size_t end)>& found) const {
  const pcre2_code* code = code_->compiled;
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(code, nullptr));
  if (!match) throw std::bad_alloc();
  const PCRE2_SIZE* borders = pcre2_get_ovector_pointer(match.get());
  std::optional<size_t> last_end;
  for (size_t at = 0; at <= text.size();) {
    const auto match_with = [&](uint32_t options) {
      return pcre2_match(code, bytes_of(text), text.size(), at, PCRE2_NO_UTF_CHECK | options, match.get(),
                         code_->limits);
    };
    int result = match_with(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match_with(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0) {
      throw Error(
          ExitCode::data,
          fmt::format("{}: the pattern cannot be matched on this text: {}; shorten the text's longest line",
                      place_, message_of(result)));
    }
    if (borders[0] == borders[1] && last_end == borders[1]) {
      if (at == text.size()) return;
      next_code_point(text, at);
      continue;
    }
    found(borders[0], borders[1]);
    at = borders[1];
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
