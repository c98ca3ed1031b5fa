// SPDX-License-Identifier: Apache-2.0
#include "core/storage/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>

#include "core/base/checksum.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
/// Small enough that what was read or made is still in a core's cache when it is added up.
constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr std::string_view kUnfinished = ".saving-", kRemoved = ".removed-";

std::string name_of(int64_t step) {
  return fmt::format("{}{:08}", kPrefix, step);
}

/// Length and checksum of a file as it is now.
CheckpointFile measure(const fs::path& path) {
  const FileDescriptor fd = open_regular(path, O_RDONLY, Links::refuse);
  CheckpointFile file{.name = path.filename().string(), .bytes = file_bytes(fd.get(), path)};
  std::vector<std::byte> piece(kPieceBytes);
  Checksum sum;
  for (int64_t at = 0; at < file.bytes; at += static_cast<int64_t>(piece.size())) {
    const auto count = static_cast<size_t>(std::min(file.bytes - at, static_cast<int64_t>(piece.size())));
    read_exactly(fd.get(), path, at, std::span(piece).first(count));
    sum.add(std::span(piece).first(count));
  }
  file.checksum = sum.value();
  return file;
}

void rename_directory(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) throw io_error(to, "rename", errno);
}

/// A path that nothing has; a process that was killed may have left names behind.
fs::path free_path(const fs::path& root, std::string_view prefix, const std::string& name) {
  std::error_code ignored;
  for (int attempt = 0;; ++attempt) {
    fs::path path = root / fmt::format("{}{}-{}-{}", prefix, name, ::getpid(), attempt);
    if (!fs::exists(fs::symlink_status(path, ignored))) return path;
  }
}

/// `path` becomes what `with` was, and the reverse: at no moment is nothing there. False where the file
/// system cannot do that.
bool exchange_directories(const fs::path& path, const fs::path& with) {
  if (::renameat2(AT_FDCWD, with.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) throw io_error(path, "rename", errno);
  return false;
}

}  // namespace

Manifest read_manifest(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifestFile;
  const std::optional<std::string> text = read_text(path, Links::refuse);
  if (!text) throw Error(ExitCode::data, fmt::format("{}: is missing", one_line(path.string())));
  return parse_manifest(*text, one_line(path.string()));
}

void verify_file(const fs::path& checkpoint, const CheckpointFile& expected) {
  const fs::path path = checkpoint / expected.name;
  std::error_code error;
  if (!fs::exists(path, error))
    throw Error(ExitCode::data, fmt::format("{}: is missing", one_line(path.string())));
  const CheckpointFile found = measure(path);
  if (found.bytes != expected.bytes) {
    throw Error(ExitCode::data, fmt::format("{}: has {} bytes, the manifest expects {}",
                                            one_line(path.string()), found.bytes, expected.bytes));
  }
  if (found.checksum != expected.checksum) {
    throw Error(ExitCode::data,
                fmt::format("{}: is damaged: its checksum is {:016x}, the manifest expects {:016x}",
                            one_line(path.string()), found.checksum, expected.checksum));
  }
}

Manifest verify_checkpoint(const fs::path& checkpoint) {
  Manifest manifest = read_manifest(checkpoint);
  const int64_t named = checkpoint_step(checkpoint);
  if (named >= 0 && named != manifest.step) {
    throw Error(ExitCode::data,
                fmt::format("{}: belongs to step {}, its directory's name to step {}",
                            one_line((checkpoint / kManifestFile).string()), manifest.step, named));
  }
  for (const CheckpointFile& file : manifest.files) verify_file(checkpoint, file);
  return manifest;
}

int64_t checkpoint_step(const fs::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  if (!name.starts_with(kPrefix)) return -1;
  int64_t step = -1;
  const char* end = name.data() + name.size();
  const auto [stop, status] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return status == std::errc{} && stop == end && name == name_of(step) ? step : -1;
}

std::vector<fs::path> list_checkpoints(const fs::path& root) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    if (checkpoint_step(entry->path()) >= 0) found.push_back(entry->path());
  }
  const bool is_absent = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !is_absent) throw io_error(root, "readdir", error.value());
  std::ranges::sort(found, std::greater<>(), checkpoint_step);
  return found;
}

void remove_checkpoint(const fs::path& checkpoint) {
  const fs::path aside = free_path(checkpoint.parent_path(), kRemoved, checkpoint.filename().string());
  rename_directory(checkpoint, aside);
  std::error_code error;
  fs::remove_all(aside, error);
  if (error) throw io_error(aside, "remove", error.value());
  sync_directory(checkpoint.parent_path());
}

void remove_leftovers(const fs::path& root) {
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kUnfinished) || name.starts_with(kRemoved)) left.push_back(entry->path());
  }
  for (const fs::path& path : left) fs::remove_all(path, error);  // what cannot be removed is in nobody's way
}

CheckpointWriter::CheckpointWriter(const fs::path& root, int64_t step) : root_(root) {
  manifest_.step = step;
  make_directories(root_);
  const fs::path path = free_path(root_, kUnfinished, name_of(step));
  if (::mkdir(path.c_str(), 0777) != 0) throw io_error(path, "mkdir", errno);
  temporary_ = path;
}

CheckpointWriter::~CheckpointWriter() {
  open_.clear();  // a network file system keeps what is open under another name
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void CheckpointWriter::add(const std::string& name, const std::function<void(const ByteSink&)>& produce) {
  NewFile& file = open_.emplace_back(temporary_ / name);
  Checksum sum;
  int64_t bytes = 0;
  produce([&](std::span<const std::byte> all) {
    while (!all.empty()) {
      const std::span<const std::byte> piece = all.first(std::min(all.size(), kPieceBytes));
      sum.add(piece);
      file.write(piece);
      bytes += static_cast<int64_t>(piece.size());
      all = all.subspan(piece.size());
    }
  });
  verify_file(temporary_, manifest_.files.emplace_back(CheckpointFile{name, bytes, sum.value()}));
}

fs::path CheckpointWriter::commit() {
  for (NewFile& file : open_) file.close();
  const std::string text = to_text(manifest_);
  NewFile file(temporary_ / kManifestFile);
  file.write(std::as_bytes(std::span(text)));
  file.close();
  sync_directory(temporary_);
  fs::path path = root_ / name_of(manifest_.step);
  // One of the same step is there where it turned out to be damaged and training has come here again, or
  // where the step has been evaluated since.
  std::error_code ignored;
  if (fs::exists(path, ignored) && exchange_directories(path, temporary_)) {
    sync_directory(root_);
    return path;  // the other one is removed with the temporary name
  }
  if (fs::exists(path, ignored)) remove_checkpoint(path);
  rename_directory(temporary_, path);
  temporary_.clear();
  sync_directory(root_);
  return path;
}

}  // namespace trainer
