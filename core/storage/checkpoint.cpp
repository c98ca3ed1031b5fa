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
#include <optional>
#include <utility>

#include "core/base/checksum.h"
#include "core/base/directory.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
/// Small enough that data just read or made is still in a core's cache for the checksum.
constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr std::string_view kUnfinished = ".saving-", kRemoved = ".removed-", kReplaced = ".replaced-";
constexpr std::string_view kDamaged = "damaged-";

std::string name_of(int64_t step) {
  return fmt::format("{}{:08}", kPrefix, step);
}

/// Length and checksum of a file as it is now; nothing if there is none.
std::optional<CheckpointFile> measure(const fs::path& path) {
  if (!is_there(path)) return std::nullopt;
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

/// Advice only: the next read comes from the disk, not from the memory that may have got it wrong.
void forget_cached(const fs::path& path) {
  if (!is_there(path)) return;
  const FileDescriptor fd = open_regular(path, O_RDONLY, Links::refuse);
  static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED));
}

/// `first` is the result of a read; only if a second one is equal does it count as the disk's contents.
template <class Value, class Read>
void require_alike(const fs::path& path, const Value& first, const Read& read) {
  forget_cached(path);
  if (read() == first) return;
  throw Error(ExitCode::io, fmt::format("{}: two reads gave different bytes: the disk, its connection or "
                                        "memory is failing; nothing was changed",
                                        one_line(path.string())));
}

/// None if the directory does not exist.
std::vector<fs::path> entries_of(const fs::path& root) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const DirectoryEntry& entry : directory_entries(root, error)) found.push_back(entry.path());
  const bool is_absent = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !is_absent) throw io_error(root, "readdir", error.value());
  return found;
}

void rename_directory(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) throw io_error(to, "rename", errno);
}

/// A path that is not in use; a process that was killed may have left names.
fs::path free_path(const fs::path& root, std::string_view prefix, const std::string& name) {
  std::error_code ignored;
  for (int attempt = 0;; ++attempt) {
    fs::path path = root / fmt::format("{}{}-{}-{}", prefix, name, ::getpid(), attempt);
    if (!fs::exists(fs::symlink_status(path, ignored))) return path;
  }
}

/// Exchanges `path` and `with`, so that `path` exists at every moment. Returns false if the file
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
  try {
    if (!text) throw DamageError(fmt::format("{}: is missing", one_line(path.string())));
    return parse_manifest(*text, one_line(path.string()));
  } catch (const DamageError&) {
    require_alike(path, text, [&] { return read_text(path, Links::refuse); });
    throw;
  }
}

void verify_file(const fs::path& checkpoint, const CheckpointFile& expected) {
  const fs::path path = checkpoint / expected.name;
  const std::optional<CheckpointFile> found = measure(path);
  if (found == expected) return;
  require_alike(path, found, [&] { return measure(path); });
  if (!found) throw DamageError(fmt::format("{}: is missing", one_line(path.string())));
  if (found->bytes != expected.bytes) {
    throw DamageError(fmt::format("{}: has {} bytes, the manifest expects {}", one_line(path.string()),
                                  found->bytes, expected.bytes));
  }
  throw DamageError(fmt::format("{}: is damaged: its checksum is {:016x}, the manifest expects {:016x}",
                                path.string(), found->checksum, expected.checksum));
}

Manifest verify_checkpoint(const fs::path& checkpoint) {
  Manifest manifest = read_manifest(checkpoint);
  for (const CheckpointFile& file : manifest.files) verify_file(checkpoint, file);
  const int64_t named = checkpoint_step(checkpoint);
  if (named >= 0 && named != manifest.step) {
    throw Error(ExitCode::data,
                fmt::format("{}: belongs to step {}, its directory's name to step {}; give "
                            "the directory its own name",
                            one_line((checkpoint / kManifestFile).string()), manifest.step, named));
  }
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
  std::vector<fs::path> found = entries_of(root);
  std::erase_if(found, [](const fs::path& path) { return checkpoint_step(path) < 0; });
  std::ranges::sort(found, std::greater<>(), checkpoint_step);
  return found;
}

std::vector<fs::path> list_set_aside(const fs::path& root) {
  std::vector<fs::path> found = entries_of(root);
  std::erase_if(found, [](const fs::path& path) {
    return !path.filename().string().starts_with(fmt::format("{}{}", kDamaged, kPrefix));
  });
  std::ranges::sort(found);
  return found;
}

void remove_checkpoint(const fs::path& checkpoint) {
  const fs::path aside = free_path(checkpoint.parent_path(), kRemoved, checkpoint.filename().string());
  rename_directory(checkpoint, aside);
  if (const int error = remove_tree(aside); error != 0) throw io_error(aside, "remove", error);
  sync_directory(checkpoint.parent_path());
}

fs::path set_aside(const fs::path& checkpoint) {
  const fs::path root = checkpoint.parent_path();
  const std::string name = fmt::format("{}{}", kDamaged, checkpoint.filename().string());
  fs::path aside = root / name;
  for (int number = 2; is_there(aside); ++number) aside = root / fmt::format("{}-{}", name, number);
  rename_directory(checkpoint, aside);
  sync_directory(root);
  return aside;
}

/// A process that was killed between two names of commit() has left a checkpoint without its own.
void tidy_checkpoints(const fs::path& root) {
  // A file that cannot be removed does no harm.
  for (const fs::path& path : entries_of(root)) {
    const std::string name = path.filename().string();
    if (name.starts_with(kUnfinished) || name.starts_with(kRemoved)) remove_tree(path);
    if (!name.starts_with(kReplaced)) continue;
    const size_t end = name.rfind('-', name.rfind('-') - 1);  // after it: a process and an attempt
    const fs::path own = root / name.substr(kReplaced.size(), end - kReplaced.size());
    if (checkpoint_step(own) < 0) continue;
    if (is_there(own))
      remove_tree(path);
    else
      rename_directory(path, own);
  }
}

CheckpointWriter::CheckpointWriter(const fs::path& root, int64_t step)
    : root_(root), makes_root_(!is_there(root)) {
  manifest_.step = step;
  make_directories(root_);
  const fs::path path = free_path(root_, kUnfinished, name_of(step));
  if (::mkdir(path.c_str(), 0777) != 0) throw io_error(path, "mkdir", errno);
  temporary_ = path;
}

CheckpointWriter::~CheckpointWriter() {
  open_.clear();  // a network file system keeps open files under another name
  if (temporary_.empty()) return;
  remove_tree(temporary_);
  if (makes_root_) ::rmdir(root_.c_str());  // unless it holds something else by now
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
  take_place(path);
  // If the names are not on the disk, the one that was replaced may still be needed after a power failure.
  const fs::path replaced = std::exchange(temporary_, {});
  sync_directory(root_);
  std::error_code ignored;
  fs::remove_all(replaced, ignored);
  return path;
}

/// A checkpoint of the same step exists if the step has been evaluated since. Neither loses its name
/// permanently: tidy_checkpoints restores the replaced one's.
void CheckpointWriter::take_place(const fs::path& path) {
  if (!is_there(path)) return rename_directory(temporary_, path);
  if (exchange_directories(path, temporary_)) return;  // the other one now has the temporary name
  const fs::path replaced = free_path(root_, kReplaced, name_of(manifest_.step));
  rename_directory(path, replaced);
  if (std::rename(temporary_.c_str(), path.c_str()) != 0) {
    const int error = errno;
    rename_directory(replaced, path);
    throw io_error(path, "rename", error);
  }
  temporary_ = replaced;
}

}  // namespace trainer
