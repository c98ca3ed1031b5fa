// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "core/base/file.h"
#include "core/ranks/frames.h"

namespace trainer {

/// The address at which rank 0 listens.
struct Endpoint {
  std::string host;
  uint16_t port = 0;
};

/// Rank 0's listening socket, bound to one interface only.
class Listener {
 public:
  /// `port` 0: any that is free. Throws Error (exit 69) if host or port are not available.
  Listener(const std::string& host, uint16_t port);
  const Endpoint& endpoint() const { return endpoint_; }
  int fd() const { return socket_.get(); }
  /// A descriptor of -1 if nobody connects.
  FileDescriptor accept() const;

 private:
  FileDescriptor socket_;
  Endpoint endpoint_;
};

/// A connection to a Listener; -1 if nobody listens there yet. Throws Error (exit 69) if the host is unknown.
FileDescriptor connect_to(const Endpoint& endpoint);

/// A connection that carries frames. Nothing here blocks.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Connection(FileDescriptor socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.get(); }

  /// The peer has proven that it knows the secret: longer frames are accepted.
  void trust() {
    reader_.trust();
    is_trusted_ = true;
  }
  /// Reads what has arrived. False if the peer has closed the connection.
  bool receive();
  /// The next frame received. Throws BadFrame.
  std::optional<Frame> next() { return reader_.next(); }
  /// Since bytes arrived last, or since the connection was made.
  Clock::duration silence() const { return Clock::now() - heard_; }

  /// Silence of that length does not count.
  void discount_silence(Clock::duration gap) { heard_ += gap; }

  /// Sends as much as it can now, and keeps the rest.
  void send(const std::string& frame);
  void flush();
  bool has_more() const { return sent_ < waiting_.size(); }

 private:
  FileDescriptor socket_;
  FrameReader reader_;
  bool is_trusted_ = false;
  Clock::time_point heard_ = Clock::now();
  std::string waiting_;
  size_t sent_ = 0;
};

}  // namespace trainer
