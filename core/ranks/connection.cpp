// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/connection.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/error.h"

namespace trainer {
namespace {

constexpr int kConnectMilliseconds = 2000;
constexpr size_t kReadAtOnce = size_t{1} << 16;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const std::string& host, uint16_t port) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (status != 0) {
    throw Error(ExitCode::no_device,
                fmt::format("the address of rank 0, \"{}\", cannot be found: {}; set MASTER_ADDR", host,
                            ::gai_strerror(status)));
  }
  return {found, &::freeaddrinfo};
}

FileDescriptor socket_for(const addrinfo& address) {
  return FileDescriptor(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void set(int fd, int level, int option) {
  const int on = 1;
  ::setsockopt(fd, level, option, &on, sizeof on);
}

Endpoint endpoint_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), port.data(),
                    port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    throw Error(ExitCode::no_device, "the address on which rank 0 listens cannot be determined");
  return {host.data(), static_cast<uint16_t>(std::stoi(port.data()))};
}

bool is_connected(int fd) {
  pollfd asked{fd, POLLOUT, 0};
  int problem = 0;
  socklen_t size = sizeof problem;
  return ::poll(&asked, 1, kConnectMilliseconds) == 1 &&
         ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size) == 0 && problem == 0;
}

}  // namespace

Listener::Listener(const std::string& host, uint16_t port) {
  const Addresses addresses = addresses_of(host, port);
  socket_ = socket_for(*addresses);
  // A rank 0 that restarts must not wait until the system has forgotten the old connections.
  set(fd(), SOL_SOCKET, SO_REUSEADDR);
  if (::bind(fd(), addresses->ai_addr, addresses->ai_addrlen) != 0 || ::listen(fd(), SOMAXCONN) != 0) {
    throw Error(
        ExitCode::no_device,
        fmt::format("rank 0 cannot listen on {} port {}: {}; set MASTER_ADDR to an address of this host and "
                    "MASTER_PORT to a port that is free",
                    host, port, std::strerror(errno)));
  }
  endpoint_ = endpoint_of(fd());
}

FileDescriptor Listener::accept() const {
  FileDescriptor accepted(::accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (accepted.get() >= 0) set(accepted.get(), IPPROTO_TCP, TCP_NODELAY);
  return accepted;
}

FileDescriptor connect_to(const Endpoint& endpoint) {
  const Addresses addresses = addresses_of(endpoint.host, endpoint.port);
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    FileDescriptor socket = socket_for(*each);
    if (socket.get() < 0) continue;
    const int status = ::connect(socket.get(), each->ai_addr, each->ai_addrlen);
    if (status != 0 && (errno != EINPROGRESS || !is_connected(socket.get()))) continue;
    set(socket.get(), IPPROTO_TCP, TCP_NODELAY);
    return socket;
  }
  return FileDescriptor();
}

bool Connection::receive() {
  std::array<char, kReadAtOnce> bytes{};
  const size_t most = is_trusted_ ? bytes.size() : FrameReader::kMaxUntrusted;
  const ssize_t count = ::recv(fd(), bytes.data(), most, 0);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (count == 0) return false;
  heard_ = Clock::now();
  reader_.put({bytes.data(), static_cast<size_t>(count)});
  return true;
}

void Connection::send(const std::string& frame) {
  waiting_ += frame;
  flush();
}

/// A lost connection leaves frames unsent: receive() reports it.
void Connection::flush() {
  while (has_more()) {
    const ssize_t count = ::send(fd(), waiting_.data() + sent_, waiting_.size() - sent_, MSG_NOSIGNAL);
    if (count <= 0) return;
    sent_ += static_cast<size_t>(count);
  }
  waiting_ = {};  // a large piece is not held until the end
  sent_ = 0;
}

}  // namespace trainer
