// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/storage/checkpoint.h"

namespace trainer {
namespace {

constexpr std::string_view kTitle = "trainer checkpoint 1";
constexpr size_t kMostFiles = 64;

uint64_t text_checksum(std::string_view text) {
  return checksum(std::as_bytes(std::span(text)));
}

/// Neither path nor hidden file.
bool is_plain_name(std::string_view name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return !name.empty() && name.front() != '.' && name.size() <= 100 &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

/// Takes a text apart; whatever is not as to_text writes it is refused in the end, when that is compared.
class LineReader {
 public:
  LineReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  bool at_end() const { return text_.empty(); }
  std::string_view rest() const { return text_; }

  void next_line() {
    ++line_number_;
    const size_t end = text_.find('\n');
    if (end == std::string_view::npos) fail("the text ends here, within a line");
    line_ = text_.substr(0, end);
    text_.remove_prefix(end + 1);
  }
  std::string_view line() const { return line_; }
  std::string_view word() {
    const size_t end = std::min(line_.find(' '), line_.size());
    const std::string_view word = line_.substr(0, end);
    line_.remove_prefix(std::min(end + 1, line_.size()));
    return word;
  }
  template <class Number>
  Number number(int base) {
    const std::string_view digits = word();
    Number value{};
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (status != std::errc{} || end != digits.data() + digits.size() || digits.front() == '-') {
      fail(fmt::format("expected a number, found \"{}\"", digits.substr(0, 30)));
    }
    return value;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ExitCode::data,
                fmt::format("{}:{}: {}; the checkpoint is damaged", file_, line_number_, what));
  }

 private:
  std::string_view text_, line_;
  const std::string& file_;
  int line_number_ = 0;
};

std::string body_of(const Manifest& manifest) {
  std::string text = fmt::format("{}\nstep {}\n", kTitle, manifest.step);
  for (const CheckpointFile& file : manifest.files) {
    text += fmt::format("file {:016x} {} {}\n", file.checksum, file.bytes, file.name);
  }
  return text;
}

CheckpointFile parse_file(LineReader& reader, const Manifest& manifest) {
  CheckpointFile file;
  file.checksum = reader.number<uint64_t>(16);
  file.bytes = reader.number<int64_t>(10);
  file.name = reader.line();
  if (!is_plain_name(file.name)) reader.fail("a file has a name that none of a checkpoint's has");
  const bool known =
      std::ranges::find(manifest.files, file.name, &CheckpointFile::name) != manifest.files.end();
  if (known) reader.fail(fmt::format("{} is listed twice", file.name));
  if (manifest.files.size() == kMostFiles) reader.fail("more files than a checkpoint has");
  return file;
}

}  // namespace

int64_t Manifest::bytes() const {
  int64_t sum = 0;
  for (const CheckpointFile& file : files) sum += file.bytes;
  return sum;
}

std::string to_text(const Manifest& manifest) {
  const std::string body = body_of(manifest);
  return fmt::format("{}whole {:016x}\n", body, text_checksum(body));
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  LineReader reader(text, file);
  Manifest manifest;
  reader.next_line();
  if (reader.line() != kTitle) reader.fail(fmt::format("expected \"{}\"", kTitle));
  reader.next_line();
  if (reader.word() != "step") reader.fail("expected \"step\"");
  manifest.step = reader.number<int64_t>(10);
  for (reader.next_line();; reader.next_line()) {
    const std::string_view kind = reader.word();
    if (kind == "whole") break;
    if (kind != "file") reader.fail("expected \"file\" or \"whole\"");
    manifest.files.push_back(parse_file(reader, manifest));
  }
  if (to_text(manifest) != text) reader.fail("its own checksum does not match");
  return manifest;
}

}  // namespace trainer
