// SPDX-License-Identifier: Apache-2.0
#include "core/pruning/channel_choice.h"

#include <algorithm>

#include "core/pruning/cut_tensors.h"
#include "tests/catch.h"
#include "tests/ops/fixture.h"
#include "tests/pruning/channels_of.h"

namespace trainer {
namespace {

using test::ChannelsOf;

/// Whether each channel is kept, as PyTorch's mask.
std::vector<float> kept_mask(const ChannelsOf& found, const std::string& maker, size_t kept,
                             const TensorValues& values) {
  const ChannelGroup& group = found.group(maker);
  const std::vector<double> all = importances(found.program, found.channels, group, Importance::l1, values);
  std::vector<float> mask(group.channels.size(), 1);
  for (const size_t i : least(all, kept)) mask[i] = 0;
  return mask;
}

}  // namespace

TEST_CASE("kept channels: the share, rounded up to a multiple") {
  const auto kept = [](size_t channels, double share, int64_t multiple, int64_t width = 1) {
    return kept_count(channels, width, {.share = share, .multiple = multiple});
  };
  CHECK(kept(64, 0.5, 8) == 32);
  CHECK(kept(64, 0.51, 8) == 40);
  CHECK(kept(64, 0.01, 8) == 8);
  CHECK(kept(64, 1, 8) == 64);
  CHECK(kept(20, 0.5, 8) == 16);
  CHECK(kept(20, 0.9, 8) == 20);
  CHECK(kept(6, 0.5, 8) == 6);
  CHECK(kept(10, 0.3, 1) == 3);
  CHECK(kept(1, 0.5, 1) == 1);
  // A channel of 3 positions, of which 8 are 24; of 16, which is a multiple by itself.
  CHECK(kept(20, 0.3, 8, 3) == 8);
  CHECK(kept(20, 0.3, 8, 16) == 6);
  CHECK(kept(20, 0.3, 8, 4) == 6);
  CHECK(kept(20, 0.25, 8, 4) == 6);
}

TEST_CASE("kept channels: the least important go, of equal ones the last") {
  CHECK(least(std::vector<double>{3, 1, 2, 1}, 2) == std::vector<size_t>{1, 3});
  CHECK(least(std::vector<double>{1, 1, 1}, 1) == std::vector<size_t>{1, 2});
  CHECK(least(std::vector<double>{1, 2}, 2).empty());
}

TEST_CASE("kept channels: those of PyTorch's ln_structured") {
  const Fixture fixture("pruning");
  const auto check = [&](const std::string& layer, const std::string& text) {
    INFO(layer);
    const ChannelsOf found(text);
    const std::vector<float> expected = fixture.values(layer + ".kept");
    const auto kept = static_cast<size_t>(std::ranges::count(expected, 1.0F));
    REQUIRE(kept < expected.size());
    const TensorValues values = [&](const Tensor& tensor) { return fixture.values(tensor.name); };
    CHECK(kept_mask(found, layer + ".weight", kept, values) == expected);
  };
  const std::string tail = ", global_avg_pool2d, flatten, linear: {name: head, out_features: 2}]";
  check("conv", "input: [5, 4, 4]\nlayers: [conv2d: {name: conv, out_channels: 24, kernel_size: 3}" + tail);
  check("linear",
        "input: [40]\nlayers: [linear: {name: linear, out_features: 33}, relu, linear: {name: head, "
        "out_features: 2}]");
}

TEST_CASE("kept channels: layers that make them together count alike, whatever the size of their weights") {
  const ChannelsOf found(
      "input: [1]\nlayers: [linear: {name: a, out_features: 2, bias: false}, linear: {name: b, inputs: "
      "[input], out_features: 2, "
      "bias: false}, add: {inputs: [a, b]}, linear: {name: head, out_features: 1}]");
  const TensorValues values = [](const Tensor& tensor) {
    return tensor.name == "a.weight" ? std::vector<float>{-300, 100} : std::vector<float>{1, -3};
  };
  const ChannelGroup& group = found.group("a.weight");
  const std::vector<double> all = importances(found.program, found.channels, group, Importance::l1, values);
  CHECK(all == std::vector<double>{2, 2});  // 300 / 200 + 1 / 2, and 100 / 200 + 3 / 2
}

TEST_CASE("kept channels: gamma adds up the factors of batch normalisations") {
  const ChannelsOf found(
      "input: [1, 2, 2]\nlayers: [conv2d: {name: a, out_channels: 2, kernel_size: 1}, batch_norm: {name: n}, "
      "relu, batch_norm: "
      "{name: m}, flatten, linear: {name: head, out_features: 1}]");
  const TensorValues values = [](const Tensor& tensor) {
    return tensor.name == "n.weight" ? std::vector<float>{-2, 0.5} : std::vector<float>{0.25, -1};
  };
  const ChannelGroup& group = found.group("a.weight");
  CHECK(importances(found.program, found.channels, group, Importance::gamma, values) ==
        std::vector<double>{2.25, 1.5});
}

TEST_CASE("cut tensors: positions of removed channels go from every dimension") {
  const ChannelsOf found(
      "input: [1, 2, 1]\nlayers: [conv2d: {name: a, out_channels: 3, kernel_size: 1}, flatten, linear: "
      "{name: b, out_features: 2}, "
      "relu, linear: {name: head, out_features: 1}]");
  RemovedChannels removed(found.channels.count);
  removed[found.group("a.weight").channels[1]] = true;
  removed[found.group("b.weight").channels[0]] = true;
  const TensorId b = found.program.find("b.weight");
  CHECK(cut_shape(found.program, found.channels, removed, b) == Shape{1, 4});
  const std::vector<float> values = {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15};
  CHECK(cut_values(found.program, found.channels, removed, b, values) == std::vector<float>{10, 11, 14, 15});
  const TensorId bias = found.program.find("a.bias");
  CHECK(cut_values(found.program, found.channels, removed, bias, {7, 8, 9}) == std::vector<float>{7, 9});
}

}  // namespace trainer
