// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/exchange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trainer {

void Exchange::describe(AttributeVisitor& visit) const {
  visit("from", from);
  visit("to", to);
}

std::vector<TensorSpec> Exchange::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "needs one tensor");
  return {inputs[kX]};
}

std::vector<TensorId> Exchange::gradient(const Backward& backward) const {
  return {backward.build.emit<Exchange>({backward.dy[kY]}, to, from)};
}

void Receive::describe(AttributeVisitor& visit) const {
  visit("route", static_cast<int64_t>(route));
}

std::vector<TensorSpec> Receive::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "reads nothing");
  return {spec};
}

void ExchangeStart::describe(AttributeVisitor& visit) const {
  CollectiveStart::describe(visit);
  std::vector<std::string> peers;
  for (const Peer& peer : to) peers.push_back(fmt::format("{}#{}", peer.position, peer.number));
  if (!to.empty()) visit("to", fmt::format("{}", fmt::join(peers, " ")));
  peers.clear();
  for (const Received& each : from)
    peers.push_back(fmt::format("{}#{}", each.from.position, each.from.number));
  if (!from.empty()) visit("from", fmt::format("{}", fmt::join(peers, " ")));
}

std::vector<TensorSpec> ExchangeStart::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, to.size(), "needs a receiver for each tensor");
  std::vector<TensorSpec> specs;
  for (const Received& each : from) specs.push_back(each.spec);
  return specs;
}

}  // namespace trainer
