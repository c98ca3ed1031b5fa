// SPDX-License-Identifier: Apache-2.0
#include "core/optim/layer_depth.h"

#include <cmath>

#include "core/graph/ops/optimizer_steps.h"
#include "tests/catch.h"
#include "tests/reference/networks.h"

using namespace trainer;

namespace {

using Depths = std::vector<int64_t>;

constexpr const char* kBlocks = R"(
input: [1, 2, 2]
layers:
  - flatten
  - linear: {name: stem, out_features: 3}
  - layer_norm: {name: stem_norm}
  - linear: {name: blocks.0.fc, out_features: 3}
  - linear: {name: blocks.1.fc, out_features: 3}
  - layer_norm: {name: norm}
  - linear: {name: head, out_features: 3}
)";

}  // namespace

TEST_CASE("layer_lr_decay: blocks count as one layer each, as in BeiT, and what is around them too") {
  // BEiT's layers of a vision transformer with 2 blocks: 0 (embeddings), 1, 2 (blocks), 3 (norm and head).
  CHECK(depths_from_top({"patch_embed.proj.weight", "patch_embed.proj.bias", "cls_token", "pos_embed",
                         "blocks.0.norm1.weight", "blocks.0.attn.qkv.weight", "blocks.1.norm1.weight",
                         "blocks.1.mlp.fc2.bias", "norm.weight", "head.weight"}) ==
        Depths{3, 3, 3, 3, 2, 2, 1, 1, 0, 0});
  CHECK(depths_from_top({"conv1.weight", "bn1.weight", "layer1.0.conv1.weight", "layer1.0.bn1.weight",
                         "layer1.1.conv1.weight", "layer2.0.downsample.0.weight", "fc.weight", "fc.bias"}) ==
        Depths{4, 4, 3, 3, 2, 1, 0, 0});
  CHECK(depths_from_top({"features.0.0.weight", "features.1.0.block.0.weight",
                         "features.1.1.block.2.0.weight", "classifier.1.weight"}) == Depths{3, 2, 1, 0});
  CHECK(depths_from_top({"fc1.weight", "fc1.bias", "fc2.weight", "fc3.weight"}) == Depths{2, 2, 1, 0});
  CHECK(depths_from_top({"1.weight", "1.bias", "3.weight"}) == Depths{1, 1, 0});
  CHECK(depths_from_top({"cls_token"}) == Depths{0});
  CHECK(depths_from_top({}).empty());
  // A block that comes back keeps its place.
  CHECK(depths_from_top({"a.0.w", "a.1.w", "a.0.v"}) == Depths{1, 0, 1});
}

TEST_CASE("layer_lr_decay multiplies the factors of groups, for every rule") {
  for (const std::string name : {"sgd", "adamw", "lars", "muon"}) {
    INFO(name);
    const auto optimizer = optimizer_from(
        "{name: " + name + ", layer_lr_decay: 0.5, groups: [{pattern: \"*.bias\", lr_factor: 3}]}");
    const Program program = training_program(network_from(kBlocks), 4, *optimizer, {0.1f}, {});
    std::map<std::string, double> factors;
    for (const Entry& entry : program.entries) {
      for (const Node& node : entry.nodes) {
        const auto* step = dynamic_cast<const OptimizerStep*>(node.op.get());
        for (size_t i = 0; step != nullptr && i < step->parameters(); ++i)
          factors[program.tensor(node.inputs[step->input_of(i)]).name] = step->settings[i].lr_factor;
      }
    }
    CHECK(factors.at("stem.weight") == 0.125);
    CHECK(factors.at("stem_norm.weight") == 0.125);
    CHECK(factors.at("blocks.0.fc.weight") == 0.25);
    CHECK(factors.at("blocks.1.fc.weight") == 0.5);
    CHECK(factors.at("norm.bias") == 3);
    CHECK(factors.at("head.weight") == 1);
  }
}
