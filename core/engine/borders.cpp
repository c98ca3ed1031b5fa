// SPDX-License-Identifier: Apache-2.0
#include "core/engine/borders.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "core/graph/ops/exchange.h"

namespace trainer {
namespace {

std::string line_of(const char* what, const Peer& peer, const TensorSpec& spec) {
  return fmt::format("{} {}: {} {} as number {}\n", what, peer.position, to_string(spec.dtype),
                     to_string(spec.shape), peer.number);
}

/// By the other position, the messages that are sent to it and received from it.
struct Ends {
  std::map<int64_t, std::vector<std::string>> sent, received;
};

Ends ends_of(const std::string& messages) {
  Ends ends;
  std::istringstream lines(messages);
  std::string what, message;
  int64_t position = 0;
  char colon = 0;
  while (lines >> what >> position >> colon && std::getline(lines, message))
    (what == "send" ? ends.sent : ends.received)[position].push_back(message);
  return ends;
}

}  // namespace

std::string messages_of(const Plan& plan) {
  std::string text;
  for (const PlannedEntry& entry : plan.entries) {
    for (const PlannedNode& planned : entry.nodes) {
      const auto* op = dynamic_cast<const ExchangeStart*>(planned.node.op.get());
      if (op == nullptr) continue;
      for (size_t i = 0; i < op->to.size(); ++i)
        text += line_of("send", op->to[i], plan.tensors[static_cast<size_t>(planned.node.inputs[i])].spec);
      for (const ExchangeStart::Received& each : op->from) text += line_of("receive", each.from, each.spec);
    }
  }
  return text;
}

std::optional<std::string> border_difference(const std::vector<std::string>& messages) {
  std::vector<Ends> all;
  for (const std::string& each : messages) all.push_back(ends_of(each));
  for (size_t from = 0; from < all.size(); ++from) {
    for (size_t to = 0; to < all.size(); ++to) {
      const auto& sent = all[from].sent[static_cast<int64_t>(to)];
      const auto& received = all[to].received[static_cast<int64_t>(from)];
      const auto [a, b] = std::ranges::mismatch(sent, received);
      if (a == sent.end() && b == received.end()) continue;
      return fmt::format("message {} from stage {} to {}: {} is sent and {} is expected", a - sent.begin(),
                         from, to, a == sent.end() ? "nothing" : a->substr(1),
                         b == received.end() ? "nothing" : b->substr(1));
    }
  }
  return std::nullopt;
}

}  // namespace trainer
