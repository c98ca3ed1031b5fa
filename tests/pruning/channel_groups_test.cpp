// SPDX-License-Identifier: Apache-2.0
#include "core/pruning/channel_groups.h"

#include <algorithm>

#include "tests/catch.h"
#include "tests/pruning/channels_of.h"

namespace trainer {
namespace {

using test::ChannelsOf;

/// A network of images (3, 9, 7) with these layers and a classifier.
std::string images(const std::string& layers) {
  return "input: [3, 9, 7]\nlayers: [" + layers +
         ", global_avg_pool2d, flatten, linear: {name: head, out_features: 5}]";
}

std::string conv(const std::string& name, int64_t channels, const std::string& more = "") {
  return fmt::format("conv2d: {{name: {}, out_channels: {}, kernel_size: 3, padding: 1, bias: false{}}}",
                     name, channels, more);
}

/// The channels of one position of a tensor.
size_t channel(const ChannelsOf& found, const std::string& tensor, size_t dimension, size_t position) {
  return found.channels.of[static_cast<size_t>(found.program.find(tensor))][dimension][position];
}

}  // namespace

TEST_CASE("channels: a convolution, its normalisation and its reader are cut together") {
  const ChannelsOf found(images(conv("a", 8) + ", batch_norm: {name: n}, relu, " + conv("b", 6)));
  CHECK(found.text("a.weight") ==
        "8 of a.weight[0]* b.weight[1] n.bias[0] n.running_mean[0] n.running_var[0] n.weight[0]");
  CHECK(found.text("b.weight") == "6 of b.weight[0]* head.weight[1]");
  CHECK(found.text("head.weight") == "stays: the network's output");
  CHECK(found.channels.groups.size() == 3);
}

TEST_CASE("channels: a sum couples all that it adds") {
  const ChannelsOf found(images(conv("a", 8) + ", relu, " + conv("b", 8) + ", add: {inputs: [b, a]}, silu"));
  CHECK(found.text("a.weight") == "8 of a.weight[0]* b.weight[0]* b.weight[1] head.weight[1]");
  CHECK(&found.group("a.weight") == &found.group("b.weight"));
  const size_t one = channel(found, "a.weight", 0, 3);
  CHECK(one == channel(found, "b.weight", 0, 3));
  CHECK(one != channel(found, "b.weight", 0, 4));
}

TEST_CASE("channels: a sum with the network's input stays as it is") {
  const ChannelsOf found(images(conv("a", 3) + ", add: {inputs: [a, input]}"));
  CHECK(found.text("a.weight") == "stays: the network's input");
}

TEST_CASE("channels: a depthwise convolution loses groups as wholes") {
  const ChannelsOf found(images(conv("a", 6) + ", " + conv("d", 12, ", groups: 6") + ", " + conv("b", 4)));
  CHECK(found.text("a.weight") == "6 of a.weight[0]* b.weight[1] d.weight[0]*");
  for (const size_t position : {size_t{6}, size_t{7}}) {
    CHECK(channel(found, "d.weight", 0, position) == channel(found, "a.weight", 0, 3));
    CHECK(channel(found, "b.weight", 1, position) == channel(found, "a.weight", 0, 3));
  }
  CHECK(found.group("a.weight").width == 1);
}

TEST_CASE("channels: each group of a convolution loses the same channels") {
  const ChannelsOf found(images(conv("a", 12) + ", " + conv("g", 18, ", groups: 3") + ", " + conv("b", 4)));
  CHECK(found.text("a.weight") == "4 of a.weight[0]* g.weight[1]");
  CHECK(found.group("a.weight").width == 3);
  CHECK(found.text("g.weight") == "6 of b.weight[1] g.weight[0]*");
  for (size_t group = 0; group < 3; ++group) {
    CHECK(channel(found, "a.weight", 0, 4 * group + 1) == channel(found, "g.weight", 1, 1));
    CHECK(channel(found, "g.weight", 0, 6 * group + 5) == channel(found, "b.weight", 1, 5));
  }
}

TEST_CASE("channels: a concatenation puts channels one after another") {
  const ChannelsOf found(images(conv("a", 4) + ", " + conv("b", 6) +
                                ", concat: {name: all, inputs: [b, a]}, " + "batch_norm: {name: n}, " +
                                conv("c", 2)));
  CHECK(found.text("a.weight") ==
        "4 of a.weight[0]* b.weight[1] c.weight[1] n.bias[0] n.running_mean[0] n.running_var[0] n.weight[0]");
  CHECK(channel(found, "n.weight", 0, 6 + 1) == channel(found, "a.weight", 0, 1));
  CHECK(channel(found, "c.weight", 1, 5) == channel(found, "b.weight", 0, 5));
}

TEST_CASE("channels: squeeze and excitation scales the channels that it reads") {
  const ChannelsOf found(images(conv("a", 8) + ", squeeze_excite: {name: s, squeeze_channels: 3}"));
  CHECK(found.text("a.weight") ==
        "8 of a.weight[0]* head.weight[1] s.fc1.weight[1] s.fc2.bias[0] s.fc2.weight[0]*");
  CHECK(found.text("s.fc1.weight") == "3 of s.fc1.bias[0] s.fc1.weight[0]* s.fc2.weight[1]");
}

TEST_CASE("channels: a flattened channel is all its pixels") {
  const ChannelsOf found(
      "input: [3, 5, 3]\nlayers: [" + conv("a", 4) +
      ", flatten, linear: {name: hidden, out_features: 7}, relu, linear: {name: head, out_features: 2}]");
  CHECK(found.text("a.weight") == "4 of a.weight[0]* hidden.weight[1]");
  for (size_t pixel = 0; pixel < 15; ++pixel)
    CHECK(channel(found, "hidden.weight", 1, 2 * 15 + pixel) == channel(found, "a.weight", 0, 2));
  CHECK(found.text("hidden.weight") == "7 of head.weight[1] hidden.bias[0] hidden.weight[0]*");
}

TEST_CASE("channels: poolings and resampling keep channels apart") {
  const ChannelsOf found(images(conv("a", 4) +
                                ", max_pool2d: 2, avg_pool2d: 2, upsample: 2, instance_norm: {name: n, "
                                "affine: true}, group_norm: {name: m, groups: 4}, " +
                                conv("b", 2)));
  CHECK(found.text("a.weight") ==
        "4 of a.weight[0]* b.weight[1] m.bias[0] m.weight[0] n.bias[0] n.weight[0]");
}

TEST_CASE("channels: a transposed convolution makes its weight's second dimension") {
  const ChannelsOf found(
      images(conv("a", 4) + ", conv_transpose2d: {name: t, out_channels: 6, kernel_size: 2, stride: 2}, " +
             "conv_transpose2d: {name: d, out_channels: 6, kernel_size: 2, stride: 2, groups: 6}"));
  CHECK(found.text("a.weight") == "4 of a.weight[0]* t.weight[0]");
  CHECK(found.text("t.weight") == "6 of d.bias[0] d.weight[0]* head.weight[1] t.bias[0] t.weight[1]*");
}

TEST_CASE("channels: the hidden features of a perceptron in a transformer are cut, its stream is not") {
  const ChannelsOf found(network_file("configs/models/vit_tiny.yaml", {"input=[3, 32, 32]"}));
  CHECK(found.text("blocks.0.mlp.fc1.weight") ==
        "768 of blocks.0.mlp.fc1.bias[0] blocks.0.mlp.fc1.weight[0]* blocks.0.mlp.fc2.weight[1]");
  CHECK(found.text("blocks.0.mlp.fc2.weight") == "stays: 'blocks.0.norm1' (layer_norm) needs all of them");
  CHECK(found.text("blocks.0.attn.qkv.weight") == "stays: '6' (attention) needs all of them");
}

TEST_CASE("channels: a gated perceptron couples its two products") {
  const ChannelsOf found(
      "input: [6]\nlayers: [linear: {name: gate, out_features: 8, bias: false}, silu: {name: open}, linear: "
      "{name: up, inputs: "
      "[input], out_features: 8}, mul: {inputs: [open, up]}, dropout: 0.5, linear: {name: down, "
      "out_features: 3, transposed: true}]");
  CHECK(found.text("gate.weight") == "8 of down.weight[0] gate.weight[0]* up.bias[0] up.weight[0]*");
}

TEST_CASE("channels: those that an operation does not name stay, and it is named") {
  const ChannelsOf found(images(conv("a", 8) + ", group_norm: {name: compares, groups: 2}, " + conv("b", 8) +
                                ", slice: {name: half, begin: 4}"));
  CHECK(found.text("a.weight") == "stays: 'compares' (group_norm) needs all of them");
  CHECK(found.text("b.weight") == "stays: 'half' (slice) needs all of them");
}

TEST_CASE("channels: those that meet a constant table stay, other constants are cut") {
  const std::string begin = "input: [3, 4, 4]\nlayers: [" + conv("a", 8) + ", to_tokens, ",
                    end = ", mean_tokens, linear: {name: head, out_features: 5}]";
  const ChannelsOf sinusoids(begin + "positions: {max_positions: 16, kind: sinusoidal}" + end);
  CHECK(sinusoids.text("a.weight") == "stays: a constant table");
  const ChannelsOf factors(begin + "scale: {value: 0.5, learned: false}" + end);
  CHECK(factors.text("a.weight") == "8 of a.weight[0]* head.weight[1]");
}

TEST_CASE("channels: a weight that is used twice is cut where both uses agree") {
  const ChannelsOf found(
      "input: [6]\nlayers: [linear: {name: a, out_features: 6, bias: false}, relu, linear: {name: b, "
      "out_features: 6, bias: false, "
      "weight_of: a}, relu, linear: {name: head, out_features: 2}]");
  // Its features are those of the input.
  CHECK(found.text("a.weight") == "stays: the network's input");
}

TEST_CASE("channels: some of a layer's channels may stay alone") {
  const ChannelsOf found(images(
      conv("a", 3) + ", " + conv("b", 4) + ", concat: {name: all, inputs: [a, b]}, batch_norm: {name: n}, " +
      conv("c", 7) + ", add: {name: sum, inputs: [c, all]}, slice: {begin: 0, end: 3, inputs: [a]}, " +
      "add: {inputs: [a, input]}, concat: {inputs: [sum, a]}"));
  CHECK(found.text("a.weight").starts_with("stays: "));
  // Those of c that are added to a's stay with them.
  const auto makes_c = [&](const ChannelGroup& group) {
    return group.axes.contains({found.program.find("c.weight"), 0, ChannelUse::makes});
  };
  CHECK(std::ranges::count_if(found.channels.groups, makes_c) == 2);
  CHECK(found.text("b.weight").starts_with("4 of "));
}

}  // namespace trainer
