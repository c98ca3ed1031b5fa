// SPDX-License-Identifier: Apache-2.0
#include "core/graph/builder.h"
#include "core/graph/operation.h"
#include "core/graph/ops/cast.h"
#include "core/passes/table.h"

namespace trainer {
namespace {

/// The parameter that a node casts, or kNone.
TensorId cast_parameter(const Program& program, const Node& node) {
  const bool casts = dynamic_cast<const Cast*>(node.op.get()) != nullptr;
  return casts && program.tensor(node.inputs[Cast::kX]).role == Role::parameter ? node.inputs[Cast::kX]
                                                                                : kNone;
}

void rename(Entry& entry, const std::map<TensorId, TensorId>& renamed) {
  for (Node& node : entry.nodes) {
    for (TensorId& id : node.inputs) {
      if (const auto found = renamed.find(id); found != renamed.end()) id = found->second;
    }
  }
  for (NamedTensor& output : entry.outputs) {
    if (const auto found = renamed.find(output.tensor); found != renamed.end()) output.tensor = found->second;
  }
}

/// Keeps the first cast of each parameter, and makes the readers of all others read it; the others only saved
/// memory. Returns each parameter's cast.
std::map<TensorId, TensorId> cast_once(const Program& program, Entry& entry) {
  std::map<TensorId, TensorId> first, renamed;
  std::erase_if(entry.nodes, [&](const Node& node) {
    const TensorId parameter = cast_parameter(program, node);
    if (parameter == kNone) return false;
    const auto [known, fresh] = first.try_emplace(parameter, node.outputs[Cast::kY]);
    if (!fresh) renamed[node.outputs[Cast::kY]] = known->second;
    return !fresh;
  });
  rename(entry, renamed);
  return first;
}

/// The first run of a step casts and keeps the result in a persistent tensor, which the others read.
void keep(Program& program) {
  Entry& first = program.entry(entry_name::kAccumulateFirst);
  const std::map<TensorId, TensorId> values = cast_once(program, first);
  std::map<TensorId, TensorId> kept;
  Builder build(program, first);
  for (const auto& [parameter, value] : values) {
    const Tensor copy{.name = program.tensor(parameter).name + state_suffix::kLowPrecisionCopy,
                      .spec = program.spec(value),
                      .role = Role::derived};
    kept[parameter] = program.persistent(copy.name, copy.spec, copy.role, {});
    build.set_origin({{}, copy.name});
    build.assign(kept[parameter], value);
  }
  Entry& next = program.entry(entry_name::kAccumulateNext);
  std::map<TensorId, TensorId> renamed;
  std::erase_if(next.nodes, [&](const Node& node) {
    const auto found = kept.find(cast_parameter(program, node));
    if (found == kept.end()) return false;
    renamed[node.outputs[Cast::kY]] = found->second;
    return true;
  });
  rename(next, renamed);
}

}  // namespace

Pass keep_low_weights() {
  auto run = [](Program& program) {
    if (program.find_entry(entry_name::kAccumulateNext) != nullptr) keep(program);
  };
  return {.name = "keep_low_weights",
          .help = "cast weights once a step, not once for each micro-batch",
          .optional = true,
          .run = run,
          .after = {"mixed_precision", "accumulate"}};
}

std::optional<Pass> keep_low_weights_pass(const PassSettings& settings) {
  return settings.trains ? std::optional(keep_low_weights()) : std::nullopt;
}

}  // namespace trainer
