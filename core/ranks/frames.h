// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace trainer {

/// The messages on a connection between ranks. On the wire a frame is its length (u32, without itself), its
/// kind (u8) and its body. All numbers are little-endian.
enum class FrameKind : uint8_t {
  hello,
  join,
  welcome,
  refuse,
  ready,
  heartbeat,
  group_status,
  contribution,
  gathered,
  exiting,
  request,
  answer,
  line
};
constexpr uint8_t kFrameKinds = 13;

struct Frame {
  FrameKind kind;
  std::string body;
};

/// Bytes that no rank sends.
class BadFrame : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string encode(FrameKind kind, std::string_view body);

/// Cuts the bytes of a connection into frames.
class FrameReader {
 public:
  /// Until a connection has proven that it knows the secret, it gets no more memory.
  static constexpr size_t kMaxUntrusted = 512;
  static constexpr size_t kMax = size_t{1} << 26;

  void trust() { max_ = kMax; }
  void put(std::string_view bytes) { bytes_ += bytes; }
  /// The next frame, once it is complete. Throws BadFrame if it is too long, or of an unknown kind.
  std::optional<Frame> next();

 private:
  size_t max_ = kMaxUntrusted;
  std::string bytes_;
};

/// Writes a body.
class BodyWriter {
 public:
  BodyWriter& number(uint64_t value);
  BodyWriter& text(std::string_view value);
  std::string take() { return std::move(body_); }

 private:
  std::string body_;
};

/// Reads a body. Throws BadFrame if it is shorter or longer than what is read.
class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : rest_(body) {}
  uint64_t number();
  /// A number of at least 0 and below `end`.
  int64_t below(int64_t end);
  std::string text();
  void end() const;

 private:
  std::string_view rest_;
};

}  // namespace trainer
