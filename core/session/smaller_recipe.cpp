// SPDX-License-Identifier: Apache-2.0
#include "core/session/smaller_recipe.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <vector>

#include "core/config/value.h"

namespace trainer {
namespace {

using LayerNodes = std::vector<const Node*>;

/// The tensors of one layer.
struct LayerTensors {
  TensorId input = kNone, output = kNone;
  std::map<std::string, TensorId> parameters;  ///< by suffix

  LayerTensors(const Program& program, const LayerNodes& nodes, const std::string& name) {
    std::set<TensorId> made = {kNone};
    for (const Node* node : nodes) {
      for (const TensorId id : node->inputs) {
        if (made.contains(id)) continue;
        const Tensor& tensor = program.tensor(id);
        if (is_persistent(tensor.role)) {
          if (tensor.name.starts_with(name + ".")) parameters[tensor.name.substr(name.size() + 1)] = id;
        } else if (input == kNone) {
          input = id;
        }
      }
      made.insert(node->outputs.begin(), node->outputs.end());
      output = node->outputs.front();
    }
  }

  LayerSizes sizes(const ShapeOf& shape_of) const {
    LayerSizes sizes{.input = shape_of(input), .output = shape_of(output), .parameters = {}};
    for (const auto& [suffix, id] : parameters) sizes.parameters[suffix] = shape_of(id);
    return sizes;
  }
};

std::map<std::string, LayerNodes> nodes_by_layer(const Entry& entry) {
  std::map<std::string, LayerNodes> nodes;
  for (const Node& node : entry.nodes) nodes[node.origin.path].push_back(&node);
  return nodes;
}

}  // namespace

std::string smaller_recipe(const Recipe& recipe, const Program& program, const Entry& entry,
                           const ShapeOf& after, const std::string& weights) {
  Diagnostics diagnostics;
  Value root = parse_yaml(recipe.to_yaml(false), recipe.file(), diagnostics);
  const auto set = [&](const std::string& key, const std::string& value) {
    apply_override(root, fmt::format("{}={}", key, value), 0, diagnostics);
  };
  const ShapeOf before = [&](TensorId id) { return program.spec(id).shape; };
  const std::map<std::string, LayerNodes> nodes = nodes_by_layer(entry);
  const Network& network = recipe.model;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = *network.layers[i];
    const auto of_layer = nodes.find(layer.origin.path);
    if (of_layer == nodes.end()) continue;
    const LayerTensors tensors(program, of_layer->second, network.layer_name(i));
    const LayerSizes old = tensors.sizes(before), now = tensors.sizes(after);
    if (old == now) continue;
    for (const auto& [key, value] : layer.keys_for(old, now))
      set(fmt::format("model.layers[{}].{}.{}", i, layer.chosen_as, key), value);
  }
  set("model.initial_weights", weights);
  set("model.replace", "[]");
  if (recipe.run.resume_path()) set("run.resume", RunSection{}.resume.written);
  // Another run than the given recipe's.
  if (recipe.run.output_dir.find("{hash}") == std::string::npos)
    set("run.output_dir", "\"" + RunSection{}.output_dir + "\"");
  diagnostics.throw_if_any();
  return to_yaml(root, false);
}

}  // namespace trainer
