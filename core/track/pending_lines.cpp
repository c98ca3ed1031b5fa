// SPDX-License-Identifier: Apache-2.0
#include "core/track/pending_lines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "core/base/checksum.h"
#include "core/base/regular_file.h"

namespace trainer {
namespace {

/// More than a thousand numbers take. A longer line is read in a larger block.
constexpr size_t kBlockBytes = size_t{256} << 10, kMostLineBytes = size_t{64} << 20;

}  // namespace

int64_t short_form(const MetricsRecord& record) {
  const std::string text =
      fmt::format("{} {} {} {}", record.split, record.step, record.event.value_or(""), record.loss);
  return static_cast<int64_t>(checksum(std::as_bytes(std::span(text))));
}

/// Opens the file that is at the path now. False if there is none.
bool PendingLines::open() {
  struct stat at_path = {}, opened = {};
  if (::stat(path_.c_str(), &at_path) != 0) {
    if (errno == ENOENT) return false;
    throw io_error(path_, "stat", errno);
  }
  const bool is_open = file_.get() >= 0 && ::fstat(file_.get(), &opened) == 0;
  if (is_open && opened.st_ino == at_path.st_ino && opened.st_dev == at_path.st_dev &&
      at_path.st_size >= offset_)
    return true;
  not_again_ = sent_();
  file_ = open_regular(path_, O_RDONLY, Links::refuse);
  offset_ = after_ = 0;
  return true;
}

/// Whole lines after `offset_`; empty if there are none.
std::string_view PendingLines::read_block() {
  for (size_t most = kBlockBytes;; most *= 2) {
    block_.resize(most);
    const ssize_t count = ::pread(file_.get(), block_.data(), most, offset_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw io_error(path_, "read", errno);
    const std::string_view bytes(block_.data(), static_cast<size_t>(count));
    const size_t end = bytes.rfind('\n');
    if (end != std::string_view::npos) return bytes.substr(0, end + 1);
    if (bytes.size() < most || most >= kMostLineBytes) return {};
  }
}

std::vector<PendingLines::Line> PendingLines::next(size_t numbers) {
  std::vector<Line> lines;
  while (lines.empty() && open()) {
    std::string_view block = read_block();
    if (block.empty()) break;
    after_ = offset_;
    for (size_t count = 0; !block.empty() && count < numbers;) {
      const size_t end = block.find('\n');
      std::optional<MetricsRecord> record = parse_record(block.substr(0, end));
      block.remove_prefix(end + 1);
      after_ += static_cast<int64_t>(end) + 1;
      if (!record) continue;
      const int64_t form = short_form(*record);
      if (not_again_.erase(form) > 0) continue;
      count += curves_of(*record).size();
      lines.push_back({std::move(*record), form});
    }
    if (lines.empty()) offset_ = after_;
  }
  return lines;
}

}  // namespace trainer
