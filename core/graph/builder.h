// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/program.h"

namespace trainer {

/// Appends nodes to one entry of a program, inferring shapes. Nodes get the origin and phase set last.
class Builder {
 public:
  Builder(Program& program, Entry& entry) : program_(program), entry_(entry) {}

  Program& program() { return program_; }
  Entry& entry() { return entry_; }
  /// A copy: the list of tensors grows with every emit.
  Shape shape(TensorId id) const { return program_.spec(id).shape; }

  void set_origin(Origin origin) { origin_ = std::move(origin); }
  const Origin& origin() const { return origin_; }
  void set_phase(Phase phase) { phase_ = phase; }
  /// The role that new tensors get: activation, or gradient while the backward part is written.
  void set_role(Role role) { role_ = role; }

  /// All outputs of the operation. Trailing inputs that are not passed are absent. A shape that does not fit
  /// throws Error (exit 78) with the origin's place.
  std::vector<TensorId> emit_all(std::shared_ptr<const Operation> op, std::vector<TensorId> inputs);

  /// The only (or first) output.
  template <class Op, class... Arguments>
  TensorId emit(const std::vector<TensorId>& inputs, Arguments&&... arguments) {
    return emit_all(std::make_shared<Op>(std::forward<Arguments>(arguments)...), inputs).front();
  }

  /// state := value, the only way anything persistent changes.
  void assign(TensorId state, TensorId value);

 private:
  Program& program_;
  Entry& entry_;
  Origin origin_;
  Phase phase_ = Phase::forward;
  Role role_ = Role::activation;
};

}  // namespace trainer
