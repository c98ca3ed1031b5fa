// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/cifar.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/data/byte_stream.h"
#include "core/data/data_error.h"
#include "core/data/formats.h"
#include "core/engine/buffer.h"

namespace trainer {
namespace {

constexpr int64_t kPixels = int64_t{3} * 32 * 32;
constexpr int64_t kCoarseClasses = 20;

/// A record is its labels, one byte each, and the planes of red, green and blue.
int64_t label_bytes(Cifar set) {
  return set == Cifar::ten ? 1 : 2;  // CIFAR-100: the coarse label, then the fine one
}
int64_t record_bytes(Cifar set) {
  return label_bytes(set) + kPixels;
}

std::vector<std::string> file_names(Cifar set, Split split) {
  if (set == Cifar::hundred) return {split == Split::train ? "train.bin" : "test.bin"};
  if (split == Split::val) return {"test_batch.bin"};
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i) names.push_back(fmt::format("data_batch_{}.bin", i));
  return names;
}

std::vector<std::string> files_of(Cifar set, const std::string& path, Split split) {
  std::vector<std::string> files;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    for (const std::string& name : file_names(set, split))
      files.push_back((std::filesystem::path(path) / name).string());
    return files;
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(',', begin), path.size());
    files.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return files;
}

/// One file, opened, its size checked; `first` is the number of its first sample.
struct CifarFile {
  CifarFile(Cifar set, const std::string& name, int64_t first_sample)
      : path(name), stream(open_byte_stream(name)), first(first_sample) {
    if (stream->is_compressed()) {
      fail_in_file(path, 0, "the records of an unpacked archive",
                   "gzip; unpack it with `tar -xzf` and name its directory");
    }
    const int64_t bytes = stream->most_bytes(), record = record_bytes(set), rest = bytes % record;
    if (bytes == 0) fail_in_file(path, 0, fmt::format("records of {} bytes", record), "an empty file");
    if (rest != 0) {
      fail_in_file(path, bytes, fmt::format("{} more bytes, as records have {}", record - rest, record),
                   "the end of the file");
    }
    samples = bytes / record;
  }

  void read(std::byte* into, int64_t bytes) const {
    const int64_t got = stream->read(into, bytes);
    if (got < bytes)
      fail_in_file(path, got, fmt::format("{} more bytes", bytes - got), "the end of the file");
  }

  std::string path;
  std::unique_ptr<ByteStream> stream;
  int64_t first, samples = 0;
};

struct CifarFiles {
  CifarFiles(Cifar kind, const std::string& path, Split split) : set(kind) {
    for (const std::string& name : files_of(set, path, split)) {
      files.emplace_back(set, name, samples);
      samples += files.back().samples;
    }
  }

  SourceInfo info() const {
    return {samples, kCifarShape, static_cast<int64_t>(set), samples * record_bytes(set)};
  }

  Cifar set;
  std::vector<CifarFile> files;
  int64_t samples = 0;
};

class CifarSource : public ImageSource {
 public:
  explicit CifarSource(CifarFiles&& files)
      : set_(files.set), info_(files.info()), records_(allocate_host(info_.resident_bytes)) {
    for (const CifarFile& file : files.files) {
      file.read(record(file.first), file.samples * record_bytes(set_));
      places_.push_back({file.path, file.first});
    }
    check_labels({classes()});
  }

  int64_t size() const override { return info_.size; }
  Shape sample_shape() const override { return kCifarShape; }
  int64_t classes() const override { return static_cast<int64_t>(set_); }
  int64_t resident_bytes() const override { return records_.bytes(); }
  std::optional<int32_t> label_of(int64_t index) const override {
    return label(index, label_bytes(set_) - 1);
  }

  void read(int64_t index, Image& into) const override {
    into.resize(kCifarShape[0], kCifarShape[1], kCifarShape[2]);
    std::memcpy(into.pixels.data(), record(index) + label_bytes(set_), static_cast<size_t>(kPixels));
    into.label = label(index, label_bytes(set_) - 1);
  }

  void check_labels(const AllowedLabels& allowed) const override {
    for (int64_t i = 0; i < info_.size; ++i) {
      if (set_ == Cifar::hundred) check_label(i, 0, kCoarseClasses, "coarse label");
      check_label(i, label_bytes(set_) - 1, allowed.classes, "label");
    }
  }

 private:
  std::byte* record(int64_t index) const { return records_.data() + index * record_bytes(set_); }
  int32_t label(int64_t index, int64_t which) const { return std::to_integer<int32_t>(record(index)[which]); }

  void check_label(int64_t index, int64_t which, int64_t classes, const char* what) const {
    if (label(index, which) < classes) return;
    const auto after =
        std::find_if(places_.begin(), places_.end(), [&](const Place& place) { return place.first > index; });
    const Place& place = *std::prev(after);
    const bool by_network = classes < this->classes() && which == label_bytes(set_) - 1;
    fail_in_file(
        place.path, (index - place.first) * record_bytes(set_) + which,
        fmt::format("a {} below {}{}", what, classes, by_network ? ", the network's number of classes" : ""),
        std::to_string(label(index, which)));
  }

  struct Place {
    std::string path;
    int64_t first;
  };

  Cifar set_;
  SourceInfo info_;
  Buffer records_;  // (N, record)
  std::vector<Place> places_;
};

}  // namespace

std::unique_ptr<ImageSource> open_cifar(Cifar set, const std::string& path, Split split) {
  return std::make_unique<CifarSource>(CifarFiles(set, path, split));
}

SourceInfo peek_cifar(Cifar set, const std::string& path, Split split) {
  return CifarFiles(set, path, split).info();
}

std::vector<std::string> missing_cifar(Cifar set, const std::string& path, Split split) {
  std::vector<std::string> missing;
  for (const std::string& file : files_of(set, path, split)) {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) missing.push_back(file);
  }
  return missing;
}

namespace {

class CifarFormat final : public DataFormat {
 public:
  explicit CifarFormat(Cifar set) : set_(set) {}
  std::vector<InputKind> kinds() const override { return {InputKind::pixels}; }
  bool takes_lists() const override { return true; }
  std::optional<Shape> shape() const override { return kCifarShape; }
  std::unique_ptr<DataSource> open(const DataSection& section, const SourceRequest& request) const override {
    return open_cifar(set_, section.path(request.split), stored_in(section, request.split));
  }
  SourceInfo peek(const DataSection& section, const SourceRequest& request) const override {
    SourceInfo info = peek_cifar(set_, section.path(request.split), stored_in(section, request.split));
    if (request.wants_labels) info.labels = labels_of(as_images(*open(section, request)));
    return info;
  }
  std::vector<std::string> missing(const std::string& path, Split split) const override {
    return missing_cifar(set_, path, split);
  }
  std::vector<std::string> files(const std::string& path, Split split) const override {
    return files_of(set_, path, split);
  }

 private:
  Cifar set_;
};

}  // namespace

Registered<DataFormat> cifar10_format() {
  return {"cifar10", "the unpacked directory of the binary version, or files separated by commas",
          [] { return std::make_unique<CifarFormat>(Cifar::ten); }};
}

Registered<DataFormat> cifar100_format() {
  return {"cifar100", "as cifar10", [] { return std::make_unique<CifarFormat>(Cifar::hundred); }};
}

}  // namespace trainer
