// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/data/images/packed.h"
#include "core/data/images/record.h"
#include "core/data/images/record_layout.h"

namespace trainer {
namespace {

using Bytes = std::span<const std::byte>;

template <class T>
Bytes bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Index, names and, unless there are none, transforms, as stored in the file.
std::vector<std::byte> index_bytes(const std::vector<RecordEntry>& index,
                                   const std::vector<std::string>& names,
                                   const std::vector<std::string>& transforms) {
  std::vector<std::byte> bytes;
  const auto append = [&](Bytes more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
  append(std::as_bytes(std::span(index)));
  const auto append_texts = [&](const std::vector<std::string>& texts) {
    append(bytes_of(static_cast<uint32_t>(texts.size())));
    for (const std::string& text : texts) {
      append(bytes_of(static_cast<uint32_t>(text.size())));
      append(std::as_bytes(std::span(text)));
    }
  };
  append_texts(names);
  if (!transforms.empty()) append_texts(transforms);
  return bytes;
}

}  // namespace

void write_record(const ImageSource& source, const std::function<void(Bytes)>& sink,
                  const std::vector<std::string>& transforms, int64_t threads) {
  if (source.has_label_sets()) {
    throw Error(
        ExitCode::data,
        "a record file holds one label for each image, and data.labels gives several labels; train from "
        "the folder");
  }
  if (source.has_masks())
    throw Error(ExitCode::data, "a record file has no room for data.masks; train from the folder");
  const RecordHead head{.version = transforms.empty() ? kRecordVersion : kTransformedRecordVersion,
                        .kind = source.is_encoded() ? RecordKind::encoded : RecordKind::pixels};
  sink(bytes_of(head));
  uint64_t offset = sizeof head;
  std::vector<RecordEntry> index;
  index.reserve(static_cast<size_t>(source.size()));
  read_for_packing(source, 0, source.size(), threads, [&](const Image& image) {
    const Bytes bytes = std::as_bytes(std::span(source.is_encoded() ? image.encoded : image.pixels));
    sink(bytes);
    index.push_back({offset, bytes.size(), checksum(bytes), static_cast<uint64_t>(image.label)});
    offset += bytes.size();
  });
  const std::vector<std::byte> ending = index_bytes(index, source.class_names(), transforms);
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
