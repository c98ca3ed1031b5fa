// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/idx.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/byte_stream.h"
#include "core/data/formats.h"
#include "core/engine/buffer.h"

namespace trainer {
namespace {

constexpr const char* kImagesSuffix = "-images-idx3-ubyte";
constexpr const char* kLabelsSuffix = "-labels-idx1-ubyte";
constexpr std::array<const char*, 2> kEndings = {"", ".gz"};
constexpr uint32_t kUnsignedBytes =
    0x0800;  // the third byte of the magic number; the fourth counts dimensions

/// The text of an error about a file's contents.
struct Place {
  std::string path;
  bool is_compressed;

  [[noreturn]] void fail(int64_t offset, const std::string& expected, const std::string& found) const {
    throw Error(ExitCode::data, fmt::format("{}: offset {}{}: expected {}, found {}", one_line(path), offset,
                                            is_compressed ? " (uncompressed)" : "", expected, found));
  }
};

/// One IDX file, opened, its header checked against the file's size.
class IdxFile {
 public:
  IdxFile(const std::string& path, uint32_t dimensions)
      : stream_(open_byte_stream(path)), place_{path, stream_->is_compressed()}, sizes_(dimensions) {
    const uint32_t magic = read_word(), expected = kUnsignedBytes + dimensions;
    if (magic != expected) {
      place_.fail(0,
                  fmt::format("magic number 0x{:08x} (unsigned bytes, {} dimension{})", expected, dimensions,
                              dimensions == 1 ? "" : "s"),
                  fmt::format("0x{:08x}", magic));
    }
    for (int64_t& size : sizes_) {
      size = read_word();
      if (size == 0) place_.fail(offset_ - 4, "a dimension of at least 1", "0");
    }
    check_size();
  }

  const Place& place() const { return place_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t bytes() const { return bytes_; }
  int64_t header_bytes() const { return 4 * (1 + static_cast<int64_t>(sizes_.size())); }

  /// Everything after the header; demands that the file ends there.
  Buffer read_all() {
    Buffer buffer = allocate_host(bytes_);
    read(buffer.data(), bytes_);
    std::byte extra{};
    if (stream_->read(&extra, 1) != 0) place_.fail(offset_, "the end of the data", "more bytes");
    return buffer;
  }

 private:
  void read(void* into, int64_t count) {
    const int64_t got = stream_->read(into, count);
    offset_ += got;
    if (got < count) place_.fail(offset_, fmt::format("{} more bytes", count - got), "the end of the data");
  }

  uint32_t read_word() {
    std::array<uint8_t, 4> bytes{};
    read(bytes.data(), 4);
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
  }

  /// A damaged header must not cause an allocation that the file cannot fill.
  void check_size() {
    std::string product;
    bool too_large = false;
    bytes_ = 1;
    for (int64_t size : sizes_) {
      too_large = too_large || __builtin_mul_overflow(bytes_, size, &bytes_);
      product += fmt::format("{}{}", product.empty() ? "" : " x ", size);
    }
    const int64_t most = stream_->most_bytes() - header_bytes();
    if (too_large || bytes_ > most) {
      place_.fail(place_.is_compressed ? 4 : stream_->most_bytes(),
                  fmt::format("{} bytes of data, as the header says", product),
                  fmt::format("{}{}", place_.is_compressed ? "a file that can hold at most " : "", most));
    }
    if (!place_.is_compressed && bytes_ < most) {
      place_.fail(header_bytes() + bytes_, "the end of the file",
                  fmt::format("{} more bytes", most - bytes_));
    }
  }

  std::unique_ptr<ByteStream> stream_;
  Place place_;
  std::vector<int64_t> sizes_;
  int64_t bytes_ = 0;
  int64_t offset_ = 0;
};

std::optional<std::string> find_file(const std::string& path) {
  for (const char* ending : kEndings) {
    std::error_code ignored;
    if (std::filesystem::exists(path + ending, ignored)) return path + ending;
  }
  return std::nullopt;
}

/// Both files of a prefix, with equal numbers of labels and images.
struct IdxPair {
  explicit IdxPair(const std::string& prefix)
      : images(find_file(prefix + kImagesSuffix).value_or(prefix + kImagesSuffix), 3),
        labels(find_file(prefix + kLabelsSuffix).value_or(prefix + kLabelsSuffix), 1) {
    if (labels.sizes()[0] != images.sizes()[0]) {
      labels.place().fail(
          4, fmt::format("{} labels, one for each image of {}", images.sizes()[0], images.place().path),
          std::to_string(labels.sizes()[0]));
    }
  }

  SourceInfo info() const {
    const std::vector<int64_t>& sizes = images.sizes();
    return {sizes[0], {1, sizes[1], sizes[2]}, std::nullopt, images.bytes() + labels.bytes()};
  }

  IdxFile images, labels;
};

class IdxSource : public ImageSource {
 public:
  explicit IdxSource(IdxPair&& files)
      : info_(files.info()),
        pixels_(files.images.read_all()),
        labels_(files.labels.read_all()),
        labels_place_(files.labels.place()),
        labels_offset_(files.labels.header_bytes()) {
    for (int64_t i = 0; i < info_.size; ++i) classes_ = std::max<int64_t>(classes_, label(i) + 1);
  }

  int64_t size() const override { return info_.size; }
  Shape sample_shape() const override { return info_.shape; }
  int64_t classes() const override { return classes_; }
  int64_t resident_bytes() const override { return pixels_.bytes() + labels_.bytes(); }
  std::optional<int32_t> label_of(int64_t index) const override { return label(index); }

  void read(int64_t index, Image& into) const override {
    into.resize(info_.shape[0], info_.shape[1], info_.shape[2]);
    const size_t bytes = into.pixels.size();
    std::memcpy(into.pixels.data(), pixels_.data() + static_cast<size_t>(index) * bytes, bytes);
    into.label = label(index);
  }

  void check_labels(const AllowedLabels& allowed) const override {
    if (classes_ <= allowed.classes) return;
    for (int64_t i = 0; i < info_.size; ++i) {
      if (allowed.holds(label(i))) continue;
      labels_place_.fail(labels_offset_ + i, fmt::format("{}, for sample {}", allowed.text(), i),
                         std::to_string(label(i)));
    }
  }

 private:
  int32_t label(int64_t index) const { return std::to_integer<int32_t>(labels_.data()[index]); }

  SourceInfo info_;
  Buffer pixels_;  // (N, H, W)
  Buffer labels_;  // (N)
  Place labels_place_;
  int64_t labels_offset_;  // of the first label in its file
  int64_t classes_ = 0;
};

}  // namespace

std::unique_ptr<ImageSource> open_idx(const std::string& prefix) {
  return std::make_unique<IdxSource>(IdxPair(prefix));
}

SourceInfo peek_idx(const std::string& prefix) {
  return IdxPair(prefix).info();
}

std::vector<std::string> missing_idx(const std::string& prefix) {
  std::vector<std::string> missing;
  for (const char* suffix : {kImagesSuffix, kLabelsSuffix}) {
    if (!find_file(prefix + suffix)) missing.push_back(prefix + suffix + "[.gz]");
  }
  return missing;
}

namespace {

std::vector<std::string> files_of_prefix(const std::string& prefix) {
  std::vector<std::string> files;
  for (const char* suffix : {kImagesSuffix, kLabelsSuffix}) {
    for (const char* ending : kEndings) files.push_back(prefix + suffix + ending);
  }
  return files;
}

/// Pairs of files of images and labels, as MNIST has them.
class IdxFormat final : public DataFormat {
 public:
  std::vector<InputKind> kinds() const override { return {InputKind::pixels}; }
  std::unique_ptr<DataSource> open(const DataSection& section, const SourceRequest& request) const override {
    return open_idx(section.path(request.split));
  }
  SourceInfo peek(const DataSection& section, const SourceRequest& request) const override {
    IdxPair files(section.path(request.split));
    SourceInfo info = files.info();
    if (!request.wants_labels) return info;
    const Buffer labels = files.labels.read_all();
    for (int64_t i = 0; i < info.size; ++i) info.labels.push_back(std::to_integer<int32_t>(labels.data()[i]));
    return info;
  }
  std::vector<std::string> missing(const std::string& path, Split) const override {
    return missing_idx(path);
  }
  std::vector<std::string> files(const std::string& path, Split) const override {
    return files_of_prefix(path);
  }
};

}  // namespace

Registered<DataFormat> idx_format() {
  return {"idx", "PREFIX of PREFIX-images-idx3-ubyte[.gz] and -labels-idx1-ubyte[.gz]",
          [] { return std::make_unique<IdxFormat>(); }};
}

}  // namespace trainer
