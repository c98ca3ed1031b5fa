// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/record.h"

#include <fmt/core.h>

#include <cstring>
#include <optional>

#include "core/base/checksum.h"
#include "core/data/data_error.h"
#include "core/data/formats.h"
#include "core/data/images/decode.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/packed.h"
#include "core/data/images/record_layout.h"
#include "core/data/mapped_file.h"

namespace trainer {
namespace {

constexpr uint64_t kMostClasses = uint64_t{1} << 31;  // labels are i32

/// A file; its head, tail, index and names have been checked against one another and against its size.
class RecordFile {
 public:
  explicit RecordFile(const std::string& path) : path_(path), file_(path) {
    read_ends();
    check_tail();
    for (uint64_t i = 0; i < tail_.samples; ++i) check_entry(i);
    read_names();
  }

  const std::string& path() const { return path_; }
  RecordKind kind() const { return head_.kind; }
  int64_t size() const { return static_cast<int64_t>(tail_.samples); }
  int64_t classes() const { return static_cast<int64_t>(tail_.classes); }
  Shape shape() const { return {tail_.channels, tail_.height, tail_.width}; }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<std::string>& transforms() const { return transforms_; }
  int64_t entry_offset(int64_t i) const {
    return static_cast<int64_t>(tail_.index) + i * static_cast<int64_t>(sizeof(RecordEntry));
  }
  RecordEntry entry(int64_t i) const { return get<RecordEntry>(static_cast<uint64_t>(entry_offset(i))); }

  void require_intact() const { file_.require_intact(); }

  /// A sample's bytes, checked.
  std::span<const std::byte> sample(const RecordEntry& entry) const {
    const auto bytes = file_.bytes().subspan(entry.offset, entry.bytes);
    const uint64_t sum = checksum(bytes);
    require_intact();
    if (sum != entry.sum) {
      fail(entry.offset, fmt::format("{} bytes with checksum {:016x}", entry.bytes, entry.sum),
           fmt::format("{:016x}; the file was altered", sum));
    }
    return bytes;
  }

 private:
  [[noreturn]] void fail(uint64_t offset, const std::string& expected, const std::string& found) const {
    require_intact();  // lost pages read as zeros
    fail_in_file(path_, static_cast<int64_t>(offset), expected, found);
  }

  template <class T>
  T get(uint64_t offset) const {
    T value;
    std::memcpy(&value, file_.bytes().data() + offset, sizeof value);
    return value;
  }

  void read_ends() {
    const uint64_t size = file_.bytes().size();
    if (size < sizeof head_) fail(size, "the head of a record file", "the end of the file");
    head_ = get<RecordHead>(0);
    if (head_.mark != kRecordHead) fail(0, "the mark of a record file", "another file");
    if (head_.version != kRecordVersion && head_.version != kTransformedRecordVersion) {
      fail(8, fmt::format("version {} or {}", kRecordVersion, kTransformedRecordVersion),
           std::to_string(head_.version));
    }
    if (head_.kind != RecordKind::pixels && head_.kind != RecordKind::encoded) {
      fail(12, "samples of kind 0 (pixels) or 1 (encoded images)",
           std::to_string(static_cast<uint32_t>(head_.kind)));
    }
    if (size < sizeof head_ + sizeof tail_) fail(size, "the tail of a record file", "the end of the file");
    tail_at_ = size - sizeof tail_;
    tail_ = get<RecordTail>(tail_at_);
    if (tail_.mark != kRecordTail) {
      fail(size - sizeof tail_.mark, "the mark of a record file's end",
           "something else; the file is truncated");
    }
    const uint64_t sum = checksum(file_.bytes().subspan(tail_at_, offsetof(RecordTail, sum)));
    if (sum != tail_.sum)
      fail(tail_at_, fmt::format("a tail with checksum {:016x}", tail_.sum), "an altered one");
  }

  void check_tail() {
    const uint64_t room = tail_at_ - sizeof head_;
    if (tail_.samples == 0 || tail_.samples > room / sizeof(RecordEntry) || tail_.index < sizeof head_ ||
        tail_.index > tail_at_ || tail_.names > tail_at_ || tail_.names < tail_.index ||
        tail_.names - tail_.index != tail_.samples * sizeof(RecordEntry)) {
      fail(tail_at_, "an index of at least one sample within the file",
           fmt::format("{} samples at offset {}", tail_.samples, tail_.index));
    }
    if (tail_.classes == 0 || tail_.classes > kMostClasses) {
      fail(tail_at_ + offsetof(RecordTail, classes), "1 to 2^31 classes", std::to_string(tail_.classes));
    }
    const bool fits = kind() == RecordKind::encoded ? shape() == kImageShape : bytes_per_sample().has_value();
    if (!fits) {
      fail(tail_at_ + offsetof(RecordTail, channels), "the shape of a sample", to_string(shape()));
    }
    const uint64_t sum = checksum(file_.bytes().subspan(tail_.index, tail_at_ - tail_.index));
    if (sum != tail_.index_sum) {
      fail(tail_.index, fmt::format("an index with checksum {:016x}", tail_.index_sum), "an altered one");
    }
  }

  /// Of samples that are pixels; nothing if the dimensions are not pixels', or do not fit into the file.
  std::optional<uint64_t> bytes_per_sample() const {
    uint64_t bytes = 1;
    for (int64_t size : shape()) {
      if (size < 1 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
    }
    if (bytes > file_.bytes().size()) return std::nullopt;
    return bytes;
  }

  /// Samples are stored one after another, without gaps.
  void check_entry(uint64_t i) {
    const auto at = static_cast<uint64_t>(entry_offset(static_cast<int64_t>(i)));
    const RecordEntry entry = get<RecordEntry>(at);
    if (entry.offset != next_)
      fail(at, fmt::format("a sample at offset {}", next_), std::to_string(entry.offset));
    if (entry.bytes > tail_.index - next_) {
      fail(at + offsetof(RecordEntry, bytes), fmt::format("at most {} bytes", tail_.index - next_),
           std::to_string(entry.bytes));
    }
    if (kind() == RecordKind::pixels && entry.bytes != *bytes_per_sample()) {
      fail(at + offsetof(RecordEntry, bytes), fmt::format("{} bytes, as the shape says", *bytes_per_sample()),
           std::to_string(entry.bytes));
    }
    if (entry.label >= tail_.classes) {
      fail(at + offsetof(RecordEntry, label), fmt::format("a label below {}", tail_.classes),
           std::to_string(entry.label));
    }
    next_ += entry.bytes;
    if (i + 1 == tail_.samples && next_ != tail_.index) {
      fail(next_, "the index", fmt::format("{} bytes before it", tail_.index - next_));
    }
  }

  void read_names() {
    uint64_t at = tail_.names;
    const auto take = [&](uint64_t bytes) {
      if (bytes > tail_at_ - at) fail(at, fmt::format("{} bytes of class names", bytes), "the tail");
      at += bytes;
      return at - bytes;
    };
    const auto read_texts = [&](uint32_t count, std::vector<std::string>& texts) {
      for (uint32_t i = 0; i < count; ++i) {
        const auto length = get<uint32_t>(take(sizeof(uint32_t)));
        texts.emplace_back(reinterpret_cast<const char*>(file_.bytes().data()) + take(length), length);
      }
    };
    const auto count = get<uint32_t>(take(sizeof(uint32_t)));
    if (count != 0 && count != tail_.classes) {
      fail(tail_.names, fmt::format("no class names or {}", tail_.classes), std::to_string(count));
    }
    read_texts(count, names_);
    if (head_.version == kTransformedRecordVersion)
      read_texts(get<uint32_t>(take(sizeof(uint32_t))), transforms_);
    if (at != tail_at_) fail(at, "the tail", fmt::format("{} bytes before it", tail_at_ - at));
    require_intact();
  }

  std::string path_;
  MappedFile file_;
  RecordHead head_;
  RecordTail tail_;
  uint64_t tail_at_ = 0;
  uint64_t next_ = sizeof(RecordHead);  // offset at which the next sample must begin
  std::vector<std::string> names_, transforms_;
};

class RecordSource final : public ImageSource {
 public:
  RecordSource(const std::string& path, int64_t max_pixels) : file_(path), max_pixels_(max_pixels) {}

  int64_t size() const override { return file_.size(); }
  Shape sample_shape() const override { return file_.shape(); }
  int64_t classes() const override { return file_.classes(); }
  std::vector<std::string> class_names() const override { return file_.names(); }
  // The system may reclaim the mapping's pages.
  int64_t resident_bytes() const override { return 0; }
  std::optional<int32_t> label_of(int64_t index) const override {
    return static_cast<int32_t>(file_.entry(index).label);
  }
  bool is_encoded() const override { return file_.kind() == RecordKind::encoded; }

  void check_labels(const AllowedLabels& allowed) const override {
    if (classes() <= allowed.classes) return;
    for (int64_t i = 0; i < size(); ++i) {
      const auto label = static_cast<int64_t>(file_.entry(i).label);
      if (allowed.holds(label)) continue;
      file_.require_intact();
      fail_in_file(file_.path(), file_.entry_offset(i) + static_cast<int64_t>(offsetof(RecordEntry, label)),
                   fmt::format("{}, for sample {}", allowed.text(), i), std::to_string(label));
    }
  }

  void read_encoded(int64_t index, Image& into) const override {
    const auto bytes = take(index, into);
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    into.encoded.assign(data, data + bytes.size());
    file_.require_intact();
  }

  void read(int64_t index, Image& into) const override {
    if (is_encoded()) return read_view(index, WholeView(), into);
    const auto bytes = take(index, into);
    const Shape shape = file_.shape();
    into.resize(shape[0], shape[1], shape[2]);
    std::memcpy(into.pixels.data(), bytes.data(), bytes.size());
    file_.require_intact();
  }

  void read_view(int64_t index, const ViewChooser& chooser, Image& into) const override {
    if (!is_encoded()) return ImageSource::read_view(index, chooser, into);
    const auto bytes = take(index, into);
    try {
      decode_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, chooser, max_pixels_,
                   into);
      file_.require_intact();
    } catch (const DecodeError& error) {
      file_.require_intact();
      throw UnreadableSampleError({fmt::format("{}, sample {}", file_.path(), index), error.what()});
    }
  }

 private:
  std::span<const std::byte> take(int64_t index, Image& into) const {
    const RecordEntry entry = file_.entry(index);
    into.label = static_cast<int32_t>(entry.label);
    return file_.sample(entry);
  }

  RecordFile file_;
  int64_t max_pixels_;
};

}  // namespace

std::unique_ptr<ImageSource> open_record(const std::string& path, int64_t max_pixels) {
  return std::make_unique<RecordSource>(path, max_pixels);
}

SourceInfo peek_record(const std::string& path, std::vector<std::string>* transforms) {
  const RecordFile file(path);
  if (transforms != nullptr) *transforms = file.transforms();
  // Without names the number is the packed samples' highest label plus one.
  const auto classes = file.names().empty() ? std::nullopt : std::optional(file.classes());
  return SourceInfo{file.size(), file.shape(), classes, 0};
}

namespace {

class RecordFormat final : public DataFormat {
 public:
  std::vector<InputKind> kinds() const override { return {InputKind::pixels}; }
  std::unique_ptr<DataSource> open(const DataSection& section, const SourceRequest& request) const override {
    return open_record(section.path(request.split), section.images.max_pixels);
  }
  SourceInfo peek(const DataSection& section, const SourceRequest& request) const override {
    std::vector<std::string> transforms;
    SourceInfo info = peek_record(section.path(request.split), &transforms);
    info.warning = repeated_transforms(transforms, section, request.split);
    if (request.wants_labels) info.labels = labels_of(as_images(*open(section, request)));
    return info;
  }
  std::vector<std::string> files(const std::string& path, Split) const override { return {path}; }
  std::vector<std::string> class_names(const std::string& path) const override {
    return open_record(path, kMaxPixels)->class_names();
  }
};

}  // namespace

Registered<DataFormat> record_format() {
  return {"record", "a file made by `trainer data pack`", [] { return std::make_unique<RecordFormat>(); }};
}

}  // namespace trainer
