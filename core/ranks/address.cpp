// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <memory>

#include "core/ranks/peer_connections.h"

namespace trainer {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

/// The numeric address; "" if it is of another family, or if only this host can reach it.
std::string address_text(const sockaddr* address) {
  if (address == nullptr || address->sa_family != AF_INET) return "";
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, sizeof(sockaddr_storage), text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return "";
  const std::string found = text.data();
  return found.starts_with("127.") ? "" : found;
}

/// The first address that other hosts can reach; "" if there is none.
std::string address_of_name(const std::string& name) {
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, nullptr, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (std::string text = address_text(each->ai_addr); !text.empty()) return text;
  }
  return "";
}

std::string own_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string address_of_interface() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> interfaces(found, &::freeifaddrs);
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    if ((each->ifa_flags & IFF_UP) == 0) continue;
    if (std::string text = address_text(each->ifa_addr); !text.empty()) return text;
  }
  return "";
}

std::string text_of_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// "node07" from "node[07-12,15],other".
std::string first_node(const std::string& list) {
  const size_t end = list.find_first_of(",[");
  std::string name = list.substr(0, end);
  if (end == std::string::npos || list[end] == ',') return name;
  return name + list.substr(end + 1, list.find_first_of("-,]", end) - end - 1);
}

uint16_t port_of_step() {
  constexpr uint64_t kFirst = 20000, kCount = 12000;
  const uint64_t step = std::strtoull(text_of_variable("SLURM_STEP_ID").c_str(), nullptr, 10);
  const uint64_t job = std::strtoull(text_of_variable("SLURM_JOB_ID").c_str(), nullptr, 10);
  return static_cast<uint16_t>(kFirst + (job * 16 + step) % kCount);
}

}  // namespace

Endpoint rendezvous_endpoint(const RankIdentity& identity) {
  const std::string node = first_node(text_of_variable("SLURM_STEP_NODELIST"));
  const std::string host = !identity.address.empty() ? identity.address : node;
  const uint16_t port = identity.port != 0 ? identity.port : node.empty() ? uint16_t{0} : port_of_step();
  if (host.empty() || port == 0) {
    throw Error(
        ExitCode::usage,
        fmt::format(
            "{} ranks ({}): set MASTER_ADDR to the address of rank 0's host, and MASTER_PORT to a port "
            "that is free there",
            identity.ranks, identity.source));
  }
  return {host, port};
}

std::string listening_address(const RankIdentity& identity) {
  const std::string& given = identity.address;
  if (identity.local_ranks == identity.ranks) return given.empty() ? kLoopback : given;
  // Many systems resolve their own name to 127.0.1.1, which no other host can reach.
  std::string text = address_of_name(given.empty() ? own_name() : given);
  if (text.empty()) text = address_of_interface();
  return text.empty() ? kLoopback : text;
}

}  // namespace trainer
