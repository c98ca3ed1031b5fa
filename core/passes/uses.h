// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/program.h"

namespace trainer {

// Each of these looks at the whole entry. A pass with many queries uses an EntryEditor, or makes them all at
// once.

/// How often each tensor is read within an entry, outputs counting as reads.
std::vector<int> count_uses(const Program& program, const Entry& entry);

/// Whether any entry reads each tensor, outputs counting as reads.
std::vector<bool> are_read(const Program& program);

/// By tensor, the position of the node that makes it, or -1.
std::vector<int> makers_of(const Program& program, const Entry& entry);

/// Position in the entry of the only node that reads `id`, or -1 if there is none or more than one.
int only_reader(const Entry& entry, const std::vector<int>& uses, TensorId id);

/// Whether a node before position n, or nothing in the entry, makes the tensor.
bool exists_before(const Entry& entry, size_t n, TensorId id);

/// Position of the node that makes the tensor, or -1.
int maker_of(const Entry& entry, TensorId id);

/// A node's inputs with another one at this place.
std::vector<TensorId> with_input(std::vector<TensorId> inputs, size_t place, TensorId id);

/// Whether the node is an element-wise sum of two tensors, without a relu.
bool is_sum(const Node& node);

}  // namespace trainer
