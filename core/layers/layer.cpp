// SPDX-License-Identifier: Apache-2.0
#include "core/layers/layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/messages.h"
#include "core/config/patterns.h"

namespace trainer {

namespace {

std::string tensor_name(const std::string& layer, const std::string& suffix) {
  return suffix.empty() ? layer : layer + "." + suffix;
}

}  // namespace

TensorId LayerContext::parameter(const std::string& suffix, const Shape& shape, const Initial& initial) {
  Program& program = build.program();
  const TensorId id =
      program.persistent(tensor_name(name, suffix), {shape, DType::f32}, Role::parameter, initial);
  program.tensors[static_cast<size_t>(id)].frozen = is_frozen(suffix);
  return id;
}

TensorId LayerContext::parameter_of(const std::string& layer, const std::string& suffix,
                                    const Origin& place) const {
  const TensorId id = build.program().find(tensor_name(layer, suffix));
  if (!earlier->contains(layer)) {
    std::vector<std::string> names;
    for (const auto& [known, at] : *earlier) names.push_back(known);
    std::ranges::sort(names, {}, [&](const std::string& known) { return earlier->at(known); });
    fail_at(place, fmt::format("no earlier layer is named '{}'{}", shown(layer), suggestion(layer, names)));
  }
  if (id == kNone) fail_at(place, fmt::format("layer '{}' has no {}", layer, suffix));
  return id;
}

bool LayerContext::is_frozen(const std::string& suffix) const {
  return freeze != nullptr && matches_any(*freeze, tensor_name(name, suffix));
}

void Layer::declare(Fields& fields) {
  declare_parameters(fields);
  fields.add("name", &name,
             "name of the layer: the prefix of its parameters' names, and what other layers refer to");
  fields.add("inputs", &inputs,
             "names of the layers it reads, or \"input\"; NAME:1 is the second output of a layer, or of the "
             "data, that has several; default: the previous layer");
}

}  // namespace trainer
