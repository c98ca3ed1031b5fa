// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace trainer {

/// What ranks tell each other over a control connection. On the wire a frame is the length of what follows
/// (u32), its kind (u8), and its body; all numbers are little-endian.
enum class FrameKind : uint8_t { hello, join, welcome, refuse, ready, position, others, give, all, farewell };
constexpr uint8_t kFrameKinds = 10;

struct Frame {
  FrameKind kind;
  std::string body;
};

/// Bytes that are not what a rank sends.
class BadFrame : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string encode(FrameKind kind, std::string_view body);

/// Cuts the bytes of a connection into frames.
class FrameReader {
 public:
  /// Before a connection has proven what it is, it is worth no more memory.
  static constexpr size_t kMostOfStranger = 512;
  static constexpr size_t kMost = size_t{1} << 26;

  void trust() { most_ = kMost; }
  void put(std::string_view bytes) { bytes_ += bytes; }
  /// Nothing if the next one is not complete. Throws BadFrame if it is too long, or of no known kind.
  std::optional<Frame> next();

 private:
  size_t most_ = kMostOfStranger;
  std::string bytes_;
};

/// Puts a body together.
class BodyWriter {
 public:
  BodyWriter& number(uint64_t value);
  BodyWriter& text(std::string_view value);
  std::string take() { return std::move(body_); }

 private:
  std::string body_;
};

/// Takes a body apart. Throws BadFrame if it is shorter or longer than that.
class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : rest_(body) {}
  uint64_t number();
  /// A number from 0 to below `end`.
  int64_t below(int64_t end);
  std::string text();
  void end() const;

 private:
  std::string_view rest_;
};

}  // namespace trainer
