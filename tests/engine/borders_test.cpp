// SPDX-License-Identifier: Apache-2.0
#include "core/engine/borders.h"

#include "tests/catch.h"

#include "core/graph/ops/exchange.h"

namespace trainer {
namespace {

/// A stage that sends these tensors to position `to`, and receives such from there.
std::string messages(int64_t to, const std::vector<Shape>& sent, const std::vector<TensorSpec>& received) {
  Plan plan;
  PlannedEntry entry;
  std::vector<Peer> peers;
  std::vector<ExchangeStart::Received> from;
  Node node;
  for (size_t i = 0; i < sent.size(); ++i) {
    plan.tensors.push_back({.name = "", .spec = {.shape = sent[i]}, .initial = {}});
    node.inputs.push_back(static_cast<TensorId>(i));
    peers.push_back({.position = to, .number = static_cast<int64_t>(i) + 1});
  }
  for (const TensorSpec& spec : received)
    from.push_back({.from = {.position = to, .number = static_cast<int64_t>(from.size()) + 1}, .spec = spec});
  node.op = std::make_shared<ExchangeStart>(0, peers, from);
  entry.nodes.push_back({.node = node, .choice = {}});
  plan.entries.push_back(entry);
  return messages_of(plan);
}

}  // namespace

TEST_CASE("stages agree on the messages between them, or the first difference is named") {
  const std::string first = messages(1, {{2, 3}, {4}}, {{.shape = {5}}});
  CHECK(first == "send 1: f32 2x3 as number 1\nsend 1: f32 4 as number 2\nreceive 1: f32 5 as number 1\n");
  const auto with = [&](const std::vector<TensorSpec>& received, const std::vector<Shape>& sent) {
    return border_difference({first, messages(0, sent, received)}).value_or("");
  };
  CHECK(with({{.shape = {2, 3}}, {.shape = {4}}}, {{5}}) == "");
  CHECK(with({{.shape = {2, 3}}, {.shape = {6}}}, {{5}}) ==
        "message 1 from stage 0 to 1: f32 4 as number 2 is sent and f32 6 as number 2 is expected");
  CHECK(with({{.shape = {2, 3}, .dtype = DType::bf16}, {.shape = {4}}}, {{5}}) ==
        "message 0 from stage 0 to 1: f32 2x3 as number 1 is sent and bf16 2x3 as number 1 is expected");
  CHECK(with({{.shape = {2, 3}}}, {{5}}) ==
        "message 1 from stage 0 to 1: f32 4 as number 2 is sent and nothing is expected");
  CHECK(with({{.shape = {2, 3}}, {.shape = {4}}}, {}) ==
        "message 0 from stage 1 to 0: nothing is sent and f32 5 as number 1 is expected");
}

}  // namespace trainer
