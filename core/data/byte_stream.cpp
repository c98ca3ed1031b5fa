// SPDX-License-Identifier: Apache-2.0
#include "core/data/byte_stream.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/data_file.h"

namespace trainer {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

[[noreturn]] void throw_system_error(const std::string& path) {
  const int error = errno;
  throw Error(error == ENOENT ? ExitCode::recipe : ExitCode::io,
              fmt::format("{}: cannot be read: {}", one_line(path), std::strerror(error)));
}

class PlainStream : public ByteStream {
 public:
  PlainStream(std::string path, File file, int64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  int64_t read(void* into, int64_t bytes) override {
    const size_t got = std::fread(into, 1, static_cast<size_t>(bytes), file_.get());
    if (std::ferror(file_.get())) throw_system_error(path_);
    return static_cast<int64_t>(got);
  }
  bool is_compressed() const override { return false; }
  int64_t most_bytes() const override { return size_; }

 private:
  std::string path_;
  File file_;
  int64_t size_;
};

/// Gzip (RFC 1952), one member or several in a row; zlib checks length and CRC of each.
class GzipStream : public ByteStream {
 public:
  GzipStream(std::string path, File file, int64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {
    constexpr int kGzipOnly = 16;  // added to the window bits: zlib and raw streams are refused
    if (::inflateInit2(&zlib_, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { ::inflateEnd(&zlib_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  int64_t read(void* into, int64_t bytes) override {
    int64_t done = 0;
    while (done < bytes && begin_member()) {
      // zlib counts in 32 bits.
      const int64_t room = std::min<int64_t>(bytes - done, 1 << 30);
      zlib_.next_out = static_cast<Bytef*>(into) + done;
      zlib_.avail_out = static_cast<uInt>(room);
      unpack();
      done += room - zlib_.avail_out;
    }
    return done;
  }
  bool is_compressed() const override { return true; }
  // Deflate packs at most 258 bytes into two bits.
  int64_t most_bytes() const override { return size_ * (258 * 8 / 2); }

 private:
  /// False at the end of the file, which is only allowed between members.
  bool begin_member() {
    if (zlib_.avail_in == 0) fill_input();
    if (zlib_.avail_in > 0) {
      if (member_ended_) ::inflateReset(&zlib_);
      member_ended_ = false;
      return true;
    }
    if (!member_ended_) fail("more compressed data", "the end of the file; the file is truncated");
    return false;
  }

  void fill_input() {
    const size_t got = std::fread(input_.data(), 1, input_.size(), file_.get());
    if (std::ferror(file_.get())) throw_system_error(path_);
    consumed_ += static_cast<int64_t>(got);
    zlib_.next_in = input_.data();
    zlib_.avail_in = static_cast<uInt>(got);
  }

  void unpack() {
    const int status = ::inflate(&zlib_, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status == Z_STREAM_END) {
      member_ended_ = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail("intact gzip data", zlib_.msg != nullptr ? zlib_.msg : "a damaged stream");
    }
  }

  [[noreturn]] void fail(const char* expected, const char* found) const {
    throw Error(ExitCode::data, fmt::format("{}: offset {}: expected {}, found {}", one_line(path_),
                                            consumed_ - zlib_.avail_in, expected, found));
  }

  std::string path_;
  File file_;
  int64_t size_;
  int64_t consumed_ = 0;  // compressed bytes taken from the file
  bool member_ended_ = false;
  z_stream zlib_{};
  std::array<Bytef, 1 << 16> input_;
};

}  // namespace

std::unique_ptr<ByteStream> open_byte_stream(const std::string& path) {
  FileDescriptor opened = open_data_file(path);
  File file(::fdopen(opened.get(), "rb"));
  if (!file) throw_system_error(path);
  opened.release();
  std::array<unsigned char, 2> first{};
  const size_t got = std::fread(first.data(), 1, first.size(), file.get());
  if (std::ferror(file.get())) throw_system_error(path);
  std::error_code problem;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, problem));
  if (problem)
    throw Error(ExitCode::io, fmt::format("{}: cannot be read: {}", one_line(path), problem.message()));
  std::rewind(file.get());
  constexpr std::array<unsigned char, 2> kGzipMagic = {0x1F, 0x8B};
  if (got == first.size() && first == kGzipMagic) {
    return std::make_unique<GzipStream>(path, std::move(file), size);
  }
  return std::make_unique<PlainStream>(path, std::move(file), size);
}

}  // namespace trainer
