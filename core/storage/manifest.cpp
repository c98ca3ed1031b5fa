// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/storage/checkpoint.h"

namespace trainer {
namespace {

constexpr std::string_view kKind = "trainer checkpoint ";
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

std::string seal_of(std::string_view body) {
  return fmt::format("whole {:016x}\n", text_checksum(body));
}

/// Whether the last line has the checksum of the others: the text is as it was written, by whatever version.
bool is_sealed(std::string_view text) {
  const size_t last = text.rfind("\nwhole ");
  return last != std::string_view::npos && text.substr(last + 1) == seal_of(text.substr(0, last + 1));
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

/// The text after kKind in a manifest of another version; empty if this text is not one. A damaged first
/// line does not count: with the right one the checksum matches.
std::string_view other_version(std::string_view text) {
  const std::string_view title = first_line(text);
  if (!title.starts_with(kKind) || title == kTitle) return {};
  const std::string_view version = title.substr(kKind.size());
  const bool is_number =
      !version.empty() && version.find_first_not_of("0123456789") == std::string_view::npos;
  if (!is_number || is_sealed(fmt::format("{}{}", kTitle, text.substr(title.size())))) return {};
  return version;
}

/// Takes a text apart; text in another form than to_text's is refused at the end, when the two are compared.
class LineReader {
 public:
  LineReader(std::string_view text, const std::string& file)
      : text_(text), file_(file), is_sealed_(is_sealed(text)) {}

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
    const std::string place = fmt::format("{}:{}: {}", file_, line_number_, what);
    if (!is_sealed_) throw DamageError(place + "; the checkpoint is damaged");
    throw Error(ExitCode::data,
                place + "; it is intact, but this version cannot read it: use the one that wrote it");
  }

 private:
  std::string_view text_, line_;
  const std::string& file_;
  bool is_sealed_;
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
  return body + seal_of(body);
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  if (const std::string_view version = other_version(text); !version.empty()) {
    throw Error(ExitCode::data, fmt::format("{}: is of version {}, this program reads version {}; use the "
                                            "program that wrote it, or a later one",
                                            file, version, kTitle.substr(kKind.size())));
  }
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
