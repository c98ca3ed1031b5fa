// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <utility>

#include "core/graph/builder.h"
#include "core/graph/operation.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/cast.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

void cut(Tensor& tensor, const Mesh& mesh) {
  if (!tensor.part) tensor.part = Part{.whole = tensor.spec.shape, .mesh = mesh};
  tensor.part->is_sharded = true;
  tensor.spec.shape = tensor.part->shape();
}

/// Rewrites an entry: what reads a parameter reads the gathered one. A cast comes before, so that the narrow
/// numbers travel.
class Gathering {
 public:
  Gathering(Program& program, Entry& entry) : program_(program), build_(program, entry) {}

  void run() {
    const std::vector<Node> nodes = std::exchange(build_.entry().nodes, {});
    for (Node node : nodes) {
      build_.set_origin(node.origin);
      build_.set_phase(node.phase);
      const bool casts = dynamic_cast<const Cast*>(node.op.get()) != nullptr;
      if (casts && is_cut(node.inputs[Cast::kX])) {
        cast_part(node);
        continue;
      }
      for (TensorId& id : node.inputs) id = gathered(id);
      build_.entry().nodes.push_back(std::move(node));
    }
    for (NamedTensor& output : build_.entry().outputs) output.tensor = gathered(output.tensor);
  }

 private:
  bool is_cut(TensorId id) const { return id != kNone && is_sharded(program_.tensor(id)); }

  TensorId gather(TensorId part, const Part& of) {
    return build_.emit<AllGather>({part}, Along{Axis::shards, of.mesh.shards}, of.shape_of_shards());
  }

  void cast_part(Node node) {
    const TensorId parameter = node.inputs[Cast::kX], low = node.outputs[Cast::kY];
    program_.tensors[static_cast<size_t>(low)].spec.shape = Shape(program_.spec(parameter).shape);
    const Part of = *program_.tensor(parameter).part;
    build_.entry().nodes.push_back(std::move(node));
    gathered_[low] = gather(low, of);
  }

  TensorId gathered(TensorId id) {
    if (const auto known = gathered_.find(id); known != gathered_.end()) return known->second;
    if (!is_cut(id)) return id;
    return gathered_[id] = gather(id, Part(*program_.tensor(id).part));
  }

  Program& program_;
  Builder build_;
  std::map<TensorId, TensorId> gathered_;  ///< of parameters, and of their casts
};

}  // namespace

Pass shard_parameters(const Mesh& mesh) {
  auto run = [mesh](Program& program) {
    for (Tensor& tensor : program.tensors) {
      if (tensor.role == Role::parameter) cut(tensor, mesh);
    }
    for (Entry& entry : program.entries) Gathering(program, entry).run();
  };
  return {.name = "shard_parameters",
          .help =
              "give each rank a part of every parameter, and gather it where it is read "
              "(parallelism.shard_parameters)",
          .optional = false,
          .run = run,
          .after = {"mixed_precision", "pad_channels"}};
}

}  // namespace trainer
