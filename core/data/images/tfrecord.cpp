// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/tfrecord.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/base/crc32c.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/data/formats.h"
#include "core/data/images/decode.h"
#include "core/data/images/example.h"
#include "core/data/images/shard_format.h"

namespace trainer {
namespace {

// A record is the length of its data, u64, the masked CRC-32C of these eight bytes, the data, and the masked
// CRC-32C of the data. Numbers are little-endian (tensorflow/core/lib/io/record_writer.h).
static_assert(std::endian::native == std::endian::little);
constexpr int64_t kLengthBytes = 8, kSumBytes = 4, kRecordHeadBytes = kLengthBytes + kSumBytes;
constexpr int64_t kMostRecord = int64_t{1} << 31;  // the most that a message of Protocol Buffers may have

template <class T>
T stored_number(const ShardBytes& shard, int64_t offset) {
  T value{};
  std::memcpy(&value, shard.bytes.data() + offset, sizeof value);
  return value;
}

class TfRecordLayout final : public ShardLayout {
 public:
  explicit TfRecordLayout(TfRecordKeys keys) : keys_(std::move(keys)) {}

  std::string settings() const override {
    return fmt::format("tfrecord {} {} {}", Json(keys_.image).dump(), Json(keys_.label).dump(),
                       keys_.first_label);
  }
  bool unpacks() const override { return true; }

  std::vector<ShardSample> find_samples(const ShardBytes& shard) const override {
    std::vector<ShardSample> samples;
    const auto end = static_cast<int64_t>(shard.bytes.size());
    for (int64_t at = 0; at < end;) {
      const auto fail = [&](const std::string& problem) {
        throw Error(ExitCode::data, fmt::format("{}: record {} at offset {}: {}", one_line(shard.path),
                                                samples.size(), at, problem));
      };
      const int64_t length = length_at(shard, at, fail);
      samples.push_back(sample_at(shard, at, length, fail));
      at += kRecordHeadBytes + length + kSumBytes;
    }
    return samples;
  }

  std::span<const std::byte> image_of(const ShardBytes& shard, const ShardSample& sample) const override {
    const auto room = static_cast<int64_t>(shard.bytes.size()) - sample.start - kRecordHeadBytes - kSumBytes;
    const int64_t length = room < 0 ? -1 : stored_number<int64_t>(shard, sample.start);
    if (length < 0 || length > room) throw DecodeError("its length is damaged");
    const int64_t data = sample.start + kRecordHeadBytes;
    const uint32_t stated = stored_number<uint32_t>(shard, data + length);
    const uint32_t sum = masked_crc32c(shard.part(data, length));
    if (sum != stated)
      throw DecodeError(
          fmt::format("expected data with the masked CRC-32C {:08x}, found {:08x}", stated, sum));
    return shard.part(sample.offset, sample.bytes);
  }

  std::string name_of(const ShardBytes& shard, const ShardSample& sample) const override {
    return fmt::format("{}, record {}", shard.path, sample.number);
  }
  std::string label_place() const override {
    return fmt::format("a feature '{}' (data.tfrecord.label)", one_line(keys_.label));
  }

 private:
  template <class Fail>
  static int64_t length_at(const ShardBytes& shard, int64_t at, const Fail& fail) {
    const int64_t rest = static_cast<int64_t>(shard.bytes.size()) - at;
    constexpr const char* kTruncated = "expected a whole record, found the end of the file; it is truncated";
    if (rest < kRecordHeadBytes) fail(kTruncated);
    const uint32_t stated = stored_number<uint32_t>(shard, at + kLengthBytes);
    const uint32_t sum = masked_crc32c(shard.part(at, kLengthBytes));
    if (sum != stated && at == 0) fail("expected a file of TFRecord, found another or a damaged one");
    if (sum != stated)
      fail(fmt::format("expected a length with the masked CRC-32C {:08x}, found {:08x}", stated, sum));
    const auto length = stored_number<uint64_t>(shard, at);
    if (length > static_cast<uint64_t>(kMostRecord))
      fail(fmt::format("expected at most {} bytes of data, found {}", kMostRecord, length));
    if (static_cast<int64_t>(length) > rest - kRecordHeadBytes - kSumBytes) fail(kTruncated);
    return static_cast<int64_t>(length);
  }

  template <class Fail>
  ShardSample sample_at(const ShardBytes& shard, int64_t at, int64_t length, const Fail& fail) const {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - 1;  // the number of classes is i32, too
    const auto* data = reinterpret_cast<const char*>(shard.bytes.data()) + at + kRecordHeadBytes;
    ImageExample example;
    try {
      example = parse_example({data, static_cast<size_t>(length)}, keys_.image, keys_.label);
    } catch (const std::invalid_argument& problem) {
      fail(problem.what());
    }
    ShardSample sample{.start = at,
                       .offset = at + kRecordHeadBytes + (example.image.data() - data),
                       .bytes = static_cast<uint32_t>(example.image.size())};
    if (!example.label) return sample;
    if (*example.label < keys_.first_label || *example.label - keys_.first_label > kMost)
      fail(fmt::format("expected a label from {} (data.tfrecord.first_label), found {}", keys_.first_label,
                       *example.label));
    sample.label = static_cast<int32_t>(*example.label - keys_.first_label);
    return sample;
  }

  TfRecordKeys keys_;
};

class TfRecordFormat final : public ShardFormat {
 public:
  TfRecordFormat() : ShardFormat(".tfrecord") {}
  void declare(Fields& fields) override {
    fields
        .section("tfrecord", "of format tfrecord: the features of each tf.train.Example",
                 [this](Fields& section) {
                   section.add("image", &keys_.image, "the feature with the bytes of an image file")
                       .absent_as(TfRecordKeys().image);
                   section.add("label", &keys_.label, "the feature with the label, a whole number")
                       .absent_as(TfRecordKeys().label);
                   section
                       .add("first_label", &keys_.first_label,
                            "the label of class 0; 1 if the labels count from one, as those of ImageNet do")
                       .at_least(0)
                       .absent_as("0");
                 })
        .absent_if_unset();
  }
  std::shared_ptr<const ShardLayout> layout() const override { return tfrecord_layout(keys_); }

 private:
  TfRecordKeys keys_;
};

}  // namespace

std::shared_ptr<const ShardLayout> tfrecord_layout(const TfRecordKeys& keys) {
  return std::make_shared<TfRecordLayout>(keys);
}

Registered<DataFormat> tfrecord_format() {
  return {"tfrecord", "TensorFlow's records of images with labels, plain or packed with gzip; named so, too",
          [] { return std::make_unique<TfRecordFormat>(); }};
}

}  // namespace trainer
