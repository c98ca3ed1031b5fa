// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/data/images/record.h"
#include "core/data/images/record_layout.h"

namespace trainer {
namespace {

using Bytes = std::span<const std::byte>;

template <class T>
Bytes bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Index and names, as stored in the file.
std::vector<std::byte> index_bytes(const std::vector<RecordEntry>& index,
                                   const std::vector<std::string>& names) {
  std::vector<std::byte> bytes;
  const auto append = [&](Bytes more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
  append(std::as_bytes(std::span(index)));
  append(bytes_of(static_cast<uint32_t>(names.size())));
  for (const std::string& name : names) {
    append(bytes_of(static_cast<uint32_t>(name.size())));
    append(std::as_bytes(std::span(name)));
  }
  return bytes;
}

/// The label is known even for a file that cannot be read.
Bytes read_bytes(const ImageSource& source, int64_t index, Image& image) {
  if (!source.is_encoded()) {
    source.read(index, image);
    return std::as_bytes(std::span(image.pixels));
  }
  try {
    source.read_encoded(index, image);
  } catch (const UnreadableSampleError&) {
    image.encoded.clear();
  }
  return std::as_bytes(std::span(image.encoded));
}

}  // namespace

void write_record(const ImageSource& source, const std::function<void(Bytes)>& sink) {
  if (source.has_label_sets()) {
    throw Error(
        ExitCode::data,
        "a record file holds one label for each image, and data.labels gives several labels; train from "
        "the folder");
  }
  if (source.has_masks())
    throw Error(ExitCode::data, "a record file has no room for data.masks; train from the folder");
  const RecordHead head{.kind = source.is_encoded() ? RecordKind::encoded : RecordKind::pixels};
  sink(bytes_of(head));
  uint64_t offset = sizeof head;
  std::vector<RecordEntry> index;
  index.reserve(static_cast<size_t>(source.size()));
  Image image;
  for (int64_t i = 0; i < source.size(); ++i) {
    const Bytes bytes = read_bytes(source, i, image);
    sink(bytes);
    index.push_back({offset, bytes.size(), checksum(bytes), static_cast<uint64_t>(image.label)});
    offset += bytes.size();
  }
  const std::vector<std::byte> ending = index_bytes(index, source.class_names());
  sink(ending);
  const Shape shape = source.sample_shape();
  RecordTail tail{.samples = index.size(),
                  .classes = static_cast<uint64_t>(source.classes()),
                  .channels = shape[0],
                  .height = shape[1],
                  .width = shape[2],
                  .index = offset,
                  .names = offset + index.size() * sizeof(RecordEntry),
                  .index_sum = checksum(ending)};
  tail.sum = checksum(bytes_of(tail).first(offsetof(RecordTail, sum)));
  sink(bytes_of(tail));
}

}  // namespace trainer
