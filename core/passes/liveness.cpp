// SPDX-License-Identifier: Apache-2.0
#include "core/passes/liveness.h"

#include <algorithm>
#include <set>

#include "core/graph/operation.h"

namespace trainer {
namespace {

class Liveness {
 public:
  Liveness(const Program& program, const Entry& entry)
      : program_(program), entry_(entry), owner_(program.tensors.size()), last_(program.tensors.size(), -1) {
    for (size_t i = 0; i < owner_.size(); ++i) owner_[i] = i;
    find_last_uses();
  }

  int64_t peak() {
    const size_t count = entry_.nodes.size();
    std::vector<int64_t> change(count + 2, 0);
    std::vector<int> begun(program_.tensors.size(), -1), ends(program_.tensors.size(), -1);
    for (size_t n = 0; n < count; ++n) {
      const Node& node = entry_.nodes[n];
      taken_.clear();
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        if (node.outputs[o] == kNone) continue;
        const size_t id = index(node.outputs[o]);
        owner_[id] = shared_owner(node, o, static_cast<int>(n));
        if (owner_[id] == id) begun[id] = static_cast<int>(n);
        ends[owner_[id]] = std::max({ends[owner_[id]], last_[id], static_cast<int>(n)});
      }
    }
    for (size_t id = 0; id < begun.size(); ++id) {
      if (begun[id] < 0) continue;
      change[static_cast<size_t>(begun[id])] += bytes(id);
      change[static_cast<size_t>(ends[id]) + 1] -= bytes(id);
    }
    int64_t live = 0, most = 0;
    for (int64_t step : change) most = std::max(most, live += step);
    return most;
  }

 private:
  static size_t index(TensorId id) { return static_cast<size_t>(id); }
  int64_t bytes(size_t id) const {
    const TensorSpec& spec = program_.tensors[id].spec;
    return numel(spec.shape) * bytes_per_element(spec.dtype);
  }
  bool is_scratch(size_t id) const {
    const Role role = program_.tensors[id].role;
    return !is_from_outside(role) && !is_persistent(role);
  }

  void find_last_uses() {
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      for (TensorId id : entry_.nodes[n].inputs) {
        if (id != kNone) last_[index(id)] = static_cast<int>(n);
      }
    }
    for (const NamedTensor& output : entry_.outputs) {
      last_[index(output.tensor)] = static_cast<int>(entry_.nodes.size());
    }
  }

  /// The owner of the memory of output `o` of the node at `n`: itself, the tensor that it views, or an input
  /// that dies here and that no other output has taken.
  size_t shared_owner(const Node& node, size_t o, int n) {
    const size_t own = index(node.outputs[o]);
    const auto [begin, end] = node.op->in_place_inputs(o, node.inputs.size());
    for (size_t i = begin; i < end; ++i) {
      if (node.inputs[i] == kNone) continue;
      const size_t input = index(node.inputs[i]);
      if (node.op->is_view() && i == 0) return owner_[input];
      const bool dies = last_[input] == n && owner_[input] == input && is_scratch(input);
      if (dies && node.op->in_place(i, o) && bytes(input) == bytes(own) && taken_.insert(input).second)
        return input;
    }
    return own;
  }

  const Program& program_;
  const Entry& entry_;
  std::vector<size_t> owner_;
  std::vector<int> last_;
  std::set<size_t> taken_;  // inputs of one node that share memory with one of its outputs
};

}  // namespace

int64_t peak_live_bytes(const Program& program, const Entry& entry) {
  return Liveness(program, entry).peak();
}

}  // namespace trainer
