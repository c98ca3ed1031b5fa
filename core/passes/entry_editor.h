// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/graph/program.h"

namespace trainer {

/// Rewrites an entry's nodes. It always has each tensor's maker and readers, in time that does not grow with
/// the entry. A node keeps its number when others are removed or inserted; new nodes get numbers after all
/// others. `finish` puts the nodes back into the entry, which has none until then.
class EntryEditor {
 public:
  static constexpr int kNobody = -1;

  explicit EntryEditor(Entry& entry);

  /// Nodes so far, removed ones included.
  size_t size() const { return nodes_.size(); }
  const Node& node(size_t n) const { return nodes_[n]; }
  const Node& node(int n) const { return nodes_[static_cast<size_t>(n)]; }
  bool is_removed(size_t n) const { return is_removed_[n]; }

  /// The node that makes the tensor, or kNobody.
  int maker_of(TensorId id) const;
  /// Number of its reads; outputs of the entry count as reads.
  int uses(TensorId id) const;
  /// The nodes that read it in their order; one that reads it twice is listed twice.
  const std::vector<size_t>& readers(TensorId id) const;
  /// The only node that reads it, or kNobody if there is none or more than one use.
  int only_reader(TensorId id) const;
  /// Whether a node before node n, or nothing in the entry, makes the tensor.
  bool exists_before(size_t n, TensorId id) const;
  /// Whether node a is before node b.
  bool is_before(size_t a, size_t b) const { return place_[a] < place_[b]; }

  void set_op(size_t n, std::shared_ptr<const Operation> op) { nodes_[n].op = std::move(op); }
  void set_inputs(size_t n, std::vector<TensorId> inputs);
  void set_input(size_t n, size_t i, TensorId id);
  void set_outputs(size_t n, std::vector<TensorId> outputs);
  void set_output(size_t n, size_t o, TensorId id);
  /// Its inputs and outputs are no longer read and made.
  void remove(size_t n);
  /// Before a node of the original entry; several in the order of the calls.
  void insert_before(size_t n, Node node);
  void finish();

 private:
  struct Links {
    int maker = kNobody, outputs = 0;
    std::vector<size_t> readers;
  };
  Links& links(TensorId id);
  const Links& links(TensorId id) const;
  void link(size_t n);
  void unlink(size_t n);

  Entry& entry_;
  std::vector<Node> nodes_;
  std::vector<bool> is_removed_;
  std::vector<size_t> place_;                  ///< of each node: odd numbers are the original ones
  std::vector<std::vector<size_t>> inserted_;  ///< before each original node
  std::vector<Links> links_;                   ///< by tensor
};

}  // namespace trainer
