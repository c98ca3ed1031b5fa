// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/reading_speed.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/directory.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/data/images/decode.h"
#include "core/data/images/image_files.h"
#include "core/data/images/image_folder.h"
#include "core/host/process.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

class ReadingTime {
 public:
  ReadingTime(const fs::path& path, const ReadingBounds& bounds)
      : path_(path), bounds_(bounds), buffer_(kPiece, '\0') {}

  ReadingSpeed measure() {
    const std::vector<std::string> files = list_files();
    ends_ = steady_seconds() + bounds_.seconds;
    for (const std::string& file : files) {
      if (is_over()) break;
      read(file);
    }
    if (!images_.empty()) decode_images();
    return std::move(speed_);
  }

 private:
  static constexpr size_t kPiece = size_t{1} << 20;

  bool is_over() const { return steady_seconds() >= ends_ || speed_.bytes >= bounds_.bytes; }

  void note_unreadable(const std::string& text) {
    if (speed_.unreadable++ == 0) speed_.first_unreadable = text;
  }

  /// In the order of their names in each folder. Links to folders are not followed, as for training.
  std::vector<std::string> list_files() {
    if (!is_there(path_)) throw io_error(path_, "open", ENOENT);
    if (!fs::is_directory(path_)) return {path_.string()};
    ends_ = steady_seconds() + bounds_.seconds;
    std::vector<std::string> files;
    std::vector<fs::path> folders = {path_};
    while (!folders.empty() && std::ssize(files) < bounds_.files && !is_over()) {
      const fs::path folder = std::move(folders.back());
      folders.pop_back();
      list(folder, files, folders);
    }
    return files;
  }

  void list(const fs::path& folder, std::vector<std::string>& files, std::vector<fs::path>& folders) {
    std::error_code problem;
    const size_t before = files.size();
    for (const DirectoryEntry& entry : directory_entries(folder, problem)) {
      if (is_hidden_name(entry.path())) continue;
      if (!entry.is_directory()) {
        files.push_back(entry.path().string());
      } else if (!entry.is_symlink()) {
        folders.push_back(entry.path());
      }
    }
    if (problem && folder == path_) throw io_error(folder, "opening the directory", problem.value());
    if (problem) note_unreadable(io_error(folder, "opening the directory", problem.value()).what());
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
    files.resize(std::min(files.size(), static_cast<size_t>(bounds_.files)));
  }

  void read(const std::string& path) try {
    const double began = steady_seconds();
    // Opening a device may do something, and opening a pipe waits for its writer.
    if (fs::exists(path) && !fs::is_regular_file(path))
      throw Error(ExitCode::data, one_line(path) + ": is not a regular file");
    const FileDescriptor file = open_file(path, O_RDONLY | O_NOCTTY);
    // Advice: pages that were not written yet, or that others use, stay in memory.
    static_cast<void>(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED));
    read_all(file, path);
    speed_.seconds += steady_seconds() - began;
    ++speed_.files;
    if (is_image_name(path)) images_.push_back(path);
  } catch (const std::runtime_error& problem) {  // an Error, or a file system's
    note_unreadable(problem.what());
  }

  void read_all(const FileDescriptor& file, const std::string& path) {
    while (!is_over()) {
      const ssize_t got = ::read(file.get(), buffer_.data(), buffer_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw io_error(path, "read", errno);
      if (got == 0) return;
      speed_.bytes += got;
    }
  }

  /// Those that were read, again and again while there is time.
  void decode_images() {
    speed_.image_files = std::ssize(images_);
    const auto source = open_image_files(images_, kImageShape, kMaxPixels);
    Image image;
    const auto decode = [&](int64_t number) -> int64_t {
      try {
        source->read(number % source->size(), image);
        return 1;
      } catch (const std::runtime_error& problem) {  // of the image, or of the disk
        if (number < source->size()) note_unreadable(problem.what());
        return 0;
      }
    };
    int64_t first = 0;  // it allocates, and does not count
    while (first < source->size() && decode(first) == 0) ++first;
    if (first == source->size()) return;
    speed_.images = measure_rate(first + 1, INT64_MAX, bounds_.seconds * 2 / 3, decode);
  }

  const fs::path& path_;
  const ReadingBounds bounds_;
  double ends_ = 0;  ///< of listing, then of reading
  std::string buffer_;
  std::vector<std::string> images_;
  ReadingSpeed speed_;
};

}  // namespace

ReadingSpeed measure_reading(const fs::path& path, const ReadingBounds& bounds) {
  return ReadingTime(path, bounds).measure();
}

}  // namespace trainer
