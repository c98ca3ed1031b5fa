// SPDX-License-Identifier: Apache-2.0
#include "core/import/zip_archive.h"

#include <fmt/core.h>
#include <zip.h>

#include <cerrno>
#include <cstdio>
#include <new>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/import/remedies.h"

namespace trainer {

struct ZipArchive::Library {
  zip_t* archive = nullptr;
  zip_file_t* entry = nullptr;

  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    close_entry();
    if (archive != nullptr) zip_discard(archive);
  }
  void close_entry() {
    if (entry != nullptr) zip_fclose(entry);
    entry = nullptr;
  }
};

ZipArchive::ZipArchive(const std::filesystem::path& path)
    : path_(path), library_(std::make_unique<Library>()) {
  FileDescriptor file = open_regular(path);
  archive_bytes_ = file_bytes(file.get(), path);
  int code = 0;
  errno = 0;
  library_->archive = zip_fdopen(file.get(), 0, &code);
  if (library_->archive == nullptr) fail_in_library("it", code, errno);
  file.release();  // the library has closed it, and keeps a copy
  const zip_int64_t count = zip_get_num_entries(library_->archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name = zip_get_name(library_->archive, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    names_.emplace_back(name == nullptr ? "" : name);
  }
}

ZipArchive::~ZipArchive() = default;

void ZipArchive::fail(const std::string& text) const {
  throw Error(ExitCode::data, fmt::format("{}: {}", one_line(path_.string()), text));
}

void ZipArchive::fail_in_library(const std::string& what, int code, int number) const {
  // libzip 1.7 calls an archive none if it gets no memory to look for the directory.
  if (code == ZIP_ER_MEMORY || errno == ENOMEM) throw std::bad_alloc();
  // Of these the archive is the reason: it has places that no file can have.
  const bool is_forged = number == 0 || number == EFBIG || number == EINVAL || number == EOVERFLOW;
  if ((code == ZIP_ER_READ || code == ZIP_ER_SEEK || code == ZIP_ER_OPEN) && !is_forged)
    throw io_error(path_, "read", number);
  if (code == ZIP_ER_CRC) {
    fail(
        fmt::format("{} differs from its checksum: the file is damaged, or was saved with "
                    "torch.serialization.set_crc32_options(False); {}",
                    what, kCopyAgain));
  }
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  fail(fmt::format("{} cannot be read as a part of a zip archive ({}): the file is cut short or damaged; {}",
                   what, reason, kCopyAgain));
}

bool ZipArchive::has(const std::string& name) const {
  return zip_name_locate(library_->archive, name.c_str(), ZIP_FL_ENC_RAW) >= 0;
}

int64_t ZipArchive::bytes(const std::string& name) const {
  zip_stat_t status;
  zip_stat_init(&status);
  if (zip_stat(library_->archive, name.c_str(), ZIP_FL_ENC_RAW, &status) != 0)
    fail(fmt::format("expected an entry '{}', found none; {}", one_line(name), kCopyAgain));
  if (status.encryption_method != ZIP_EM_NONE)
    fail(fmt::format("'{}' is encrypted; decrypt it", one_line(name)));
  if (status.comp_method != ZIP_CM_STORE) {
    fail(
        fmt::format("'{}' is compressed, expected it stored as torch.save writes it; unpack the archive, and "
                    "pack it with 'zip -0 -r'",
                    one_line(name)));
  }
  if (status.size != status.comp_size || status.size > static_cast<zip_uint64_t>(archive_bytes_)) {
    fail(fmt::format("'{}' would have {} bytes, found {} in a file of {}; {}", one_line(name), status.size,
                     status.comp_size, archive_bytes_, kCopyAgain));
  }
  return static_cast<int64_t>(status.size);
}

void ZipArchive::open_entry(const std::string& name) {
  library_->close_entry();
  open_ = name;
  position_ = 0;
  library_->entry = zip_fopen(library_->archive, name.c_str(), ZIP_FL_ENC_RAW);
  if (library_->entry == nullptr) {
    zip_error_t* error = zip_get_error(library_->archive);
    fail_in_library("'" + one_line(name) + "'", zip_error_code_zip(error), zip_error_code_system(error));
  }
}

void ZipArchive::read_next(std::span<std::byte> into) {
  const auto fail_here = [&] {
    zip_error_t* error = zip_file_get_error(library_->entry);
    fail_in_library("'" + one_line(open_) + "'", zip_error_code_zip(error), zip_error_code_system(error));
  };
  while (!into.empty()) {
    const zip_int64_t count = zip_fread(library_->entry, into.data(), into.size());
    if (count < 0) fail_here();
    if (count == 0) fail(fmt::format("'{}' ends after {} bytes; {}", one_line(open_), position_, kCopyAgain));
    position_ += count;
    into = into.subspan(static_cast<size_t>(count));
  }
}

void ZipArchive::read(const std::string& name, int64_t begin, std::span<std::byte> into) {
  const int64_t size = bytes(name);
  errno = 0;
  if (library_->entry == nullptr || open_ != name || begin < position_) open_entry(name);
  if (begin != position_) {
    if (zip_fseek(library_->entry, begin, SEEK_SET) != 0) {
      zip_error_t* error = zip_file_get_error(library_->entry);
      fail_in_library("'" + one_line(name) + "'", zip_error_code_zip(error), zip_error_code_system(error));
    }
    position_ = begin;
  }
  read_next(into);
  if (position_ != size) return;
  std::byte after{};  // the library compares the checksum at the end
  const zip_int64_t count = zip_fread(library_->entry, &after, 1);
  zip_error_t* error = zip_file_get_error(library_->entry);
  if (count < 0)
    fail_in_library("'" + one_line(name) + "'", zip_error_code_zip(error), zip_error_code_system(error));
}

}  // namespace trainer
