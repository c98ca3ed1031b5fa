// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/ranks/frames.h"

namespace trainer {

/// An open file descriptor, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  int number() const { return number_; }

 private:
  int number_;
};

/// Where rank 0 listens.
struct Endpoint {
  std::string host;
  uint16_t port = 0;
};

/// Rank 0's door, bound to one interface only.
class Listener {
 public:
  /// `port` 0: any that is free. Throws Error (exit 69) if host or port cannot be had.
  Listener(const std::string& host, uint16_t port);
  const Endpoint& endpoint() const { return endpoint_; }
  int number() const { return descriptor_.number(); }
  /// A descriptor of -1 if nobody waits.
  Descriptor accept() const;

 private:
  Descriptor descriptor_;
  Endpoint endpoint_;
};

/// A connection to it; -1 if nobody listens there yet. Throws Error (exit 69) if the host is unknown.
Descriptor connect_to(const Endpoint& endpoint);

/// A connection that carries frames. Nothing here blocks.
class Line {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Line(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  int number() const { return descriptor_.number(); }

  void trust() { reader_.trust(); }
  /// Reads what is there. False if the other side has closed the connection.
  bool receive();
  /// The next frame of that. Throws BadFrame.
  std::optional<Frame> next() { return reader_.next(); }
  /// Since something came, or since the beginning.
  Clock::duration silence() const { return Clock::now() - heard_; }

  /// Silence of that length does not count.
  void forgive(Clock::duration gap) { heard_ += gap; }

  /// Sends what it can now, and keeps the rest.
  void send(const std::string& frame);
  void flush();
  bool has_more() const { return sent_ < waiting_.size(); }

 private:
  Descriptor descriptor_;
  FrameReader reader_;
  Clock::time_point heard_ = Clock::now();
  std::string waiting_;
  size_t sent_ = 0;
};

}  // namespace trainer
