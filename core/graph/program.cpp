// SPDX-License-Identifier: Apache-2.0
#include "core/graph/program.h"

#include <fmt/format.h>

#include <stdexcept>

#include "core/graph/operation.h"

namespace trainer {

std::string_view to_string(Role role) {
  switch (role) {
    case Role::input:
      return "input";
    case Role::samples:
      return "samples";
    case Role::parameter:
      return "parameter";
    case Role::optimizer:
      return "optimizer";
    case Role::gradient_sum:
      return "gradient_sum";
    case Role::derived:
      return "derived";
    case Role::state:
      return "state";
    case Role::cache:
      return "cache";
    case Role::constant:
      return "constant";
    case Role::activation:
      return "activation";
    case Role::gradient:
      return "gradient";
  }
  return "?";
}

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
  }
  return "?";
}

TensorId tensor_named(std::span<const NamedTensor> tensors, std::string_view name) {
  for (const NamedTensor& candidate : tensors) {
    if (candidate.name == name) return candidate.tensor;
  }
  return kNone;
}

std::vector<TensorSpec> specs_of(std::span<const Tensor> tensors, std::span<const TensorId> ids) {
  std::vector<TensorSpec> specs;
  for (const TensorId id : ids)
    specs.push_back(id == kNone ? TensorSpec{} : tensors[static_cast<size_t>(id)].spec);
  return specs;
}

std::optional<int64_t> only_rank(std::span<const Tensor> tensors, const Node& node) {
  for (const TensorId id : node.inputs) {
    if (id == kNone) continue;
    if (const auto& rank = tensors[static_cast<size_t>(id)].rank) return rank;
  }
  return std::nullopt;
}

NodeSpecs node_specs(const Program& program, const Node& node) {
  return {.inputs = specs_of(program.tensors, node.inputs),
          .outputs = specs_of(program.tensors, node.outputs)};
}

NameClash::NameClash(std::string name)
    : std::logic_error(fmt::format("two different tensors are named {}", name)), name_(std::move(name)) {}

Entry& Program::entry(std::string_view name) {
  for (Entry& entry : entries) {
    if (entry.name == name) return entry;
  }
  throw std::logic_error(fmt::format("no entry point is named {}", name));
}

const Entry* Program::find_entry(std::string_view name) const {
  for (const Entry& entry : entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

TensorId Program::find(std::string_view name) const {
  const auto found = by_name.find(name);
  if (found == by_name.end() || static_cast<size_t>(found->second) >= tensors.size()) return kNone;
  return tensor(found->second).name == name ? found->second : kNone;
}

TensorId Program::add(Tensor tensor) {
  require_addressable(tensor.spec.shape);
  const auto id = static_cast<TensorId>(tensors.size());
  if (!tensor.name.empty() && find(tensor.name) == kNone) by_name[tensor.name] = id;
  tensors.push_back(std::move(tensor));
  return id;
}

TensorId Program::persistent(const std::string& name, const TensorSpec& spec, Role role, Initial initial) {
  const TensorId known = find(name);
  if (known == kNone) return add({.name = name, .spec = spec, .role = role, .initial = std::move(initial)});
  if (tensor(known).spec != spec || tensor(known).role != role) throw NameClash(name);
  return known;
}

TensorId Program::input(const std::string& name, const TensorSpec& spec) {
  return persistent(name, spec, Role::input, {});
}

void Program::forget(TensorId id) {
  tensors[static_cast<size_t>(id)].name.clear();
  tensors[static_cast<size_t>(id)].role = Role::activation;
}

void Program::rename(TensorId id, std::string name) {
  if (const TensorId other = find(name); other != kNone && other != id) throw NameClash(name);
  by_name[name] = id;
  tensors[static_cast<size_t>(id)].name = std::move(name);
}

TensorId Program::beside(TensorId of, std::string_view suffix, Role role) {
  const Tensor original = tensor(of);  // a copy: the list may grow
  const TensorId id = persistent(original.name + std::string(suffix), original.spec, role, {});
  tensors[static_cast<size_t>(id)].part = original.part;
  tensors[static_cast<size_t>(id)].stages = original.stages;
  return id;
}

namespace {

std::string type_text(const Tensor& tensor) {
  std::string text = fmt::format("{}[{}]", to_string(tensor.spec.dtype), fmt::join(tensor.spec.shape, ","));
  if (!tensor.quantization) return text;
  return fmt::format("{} scale={} zero_point={}", text, tensor.quantization->scale,
                     tensor.quantization->zero_point);
}

std::string reference(const Program& program, TensorId id) {
  if (id == kNone) return "-";
  const Tensor& tensor = program.tensor(id);
  return tensor.name.empty() ? fmt::format("%{}", id) : "@" + tensor.name;
}

std::string node_text(const Program& program, const Node& node) {
  std::vector<std::string> outputs, inputs;
  for (TensorId id : node.outputs) {
    outputs.push_back(
        id == kNone ? "-" : fmt::format("{}: {}", reference(program, id), type_text(program.tensor(id))));
  }
  for (TensorId id : node.inputs) inputs.push_back(reference(program, id));
  std::string text = "  ";
  if (!outputs.empty()) text += fmt::format("{} = ", fmt::join(outputs, ", "));
  text += fmt::format("{}({})", node.op->name(), fmt::join(inputs, ", "));
  if (const std::string attributes = attributes_text(*node.op); !attributes.empty())
    text += " {" + attributes + "}";
  if (!node.origin.path.empty()) text += "  # " + node.origin.path;
  return text + "\n";
}

}  // namespace

std::string to_text(const Program& program) {
  std::string text;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.name.empty()) continue;
    text += fmt::format("{} @{}: {}{}{}\n", to_string(tensor.role), tensor.name, type_text(tensor),
                        tensor.rank ? fmt::format(" on rank {}", *tensor.rank) : "",
                        tensor.part ? fmt::format(" of [{}] in {} parts", fmt::join(tensor.part->whole, ","),
                                                  tensor.part->count())
                                    : "");
  }
  for (const Entry& entry : program.entries) {
    text += fmt::format("\nentry {}\n", entry.name);
    std::string_view phase;
    for (const Node& node : entry.nodes) {
      if (to_string(node.phase) != phase) text += fmt::format(" {}:\n", phase = to_string(node.phase));
      text += node_text(program, node);
    }
    for (const NamedTensor& output : entry.outputs) {
      text += fmt::format("  output {} = {}\n", output.name, reference(program, output.tensor));
    }
  }
  return text;
}

}  // namespace trainer
