// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/frames.h"

#include <limits>

namespace trainer {
namespace {

template <class T>
std::string bytes_of(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

template <class T>
T number_at(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= T{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

}  // namespace

std::string encode(FrameKind kind, std::string_view body) {
  if (body.size() >= FrameReader::kMax) throw std::length_error("a frame that no rank would take");
  std::string frame = bytes_of(static_cast<uint32_t>(body.size() + 1));
  frame += static_cast<char>(kind);
  return frame += body;
}

std::optional<Frame> FrameReader::next() {
  constexpr size_t kHead = sizeof(uint32_t), kKept = size_t{1} << 16;
  if (bytes_.size() < kHead) return std::nullopt;
  const size_t size = number_at<uint32_t>(bytes_);
  if (size == 0 || size > max_) throw BadFrame("a frame of a length that no rank sends");
  if (bytes_.size() < kHead + size) return std::nullopt;
  const auto kind = static_cast<uint8_t>(bytes_[kHead]);
  if (kind >= kFrameKinds) throw BadFrame("a frame of an unknown kind");
  Frame frame{static_cast<FrameKind>(kind), bytes_.substr(kHead + 1, size - 1)};
  bytes_.erase(0, kHead + size);
  if (bytes_.empty() && bytes_.capacity() > kKept) bytes_ = {};
  return frame;
}

BodyWriter& BodyWriter::number(uint64_t value) {
  body_ += bytes_of(value);
  return *this;
}

BodyWriter& BodyWriter::text(std::string_view value) {
  number(value.size());
  body_ += value;
  return *this;
}

uint64_t BodyReader::number() {
  if (rest_.size() < sizeof(uint64_t)) throw BadFrame("a frame that is too short");
  const auto value = number_at<uint64_t>(rest_);
  rest_.remove_prefix(sizeof(uint64_t));
  return value;
}

int64_t BodyReader::below(int64_t end) {
  const uint64_t value = number();
  if (value >= static_cast<uint64_t>(end)) throw BadFrame("a number that is too large");
  return static_cast<int64_t>(value);
}

std::string BodyReader::text() {
  const uint64_t size = number();
  if (size > rest_.size()) throw BadFrame("a frame that is too short");
  std::string value(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return value;
}

void BodyReader::end() const {
  if (!rest_.empty()) throw BadFrame("a frame that is too long");
}

}  // namespace trainer
