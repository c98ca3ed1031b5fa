// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <unordered_map>

#include "core/base/bfloat16.h"
#include "core/engine/device.h"
#include "core/engine/process_group.h"
#include "core/engine/tuning.h"

namespace trainer::cpu {

/// How the CPU runs one kind of operation.
struct Handler {
  std::function<Choice(const OpContext&, const OpenLayouts&)> select;
  std::function<std::unique_ptr<Kernel>(const OpContext&, const Choice&, const Slots&)> compile;
  /// The reason against this use of the operation; absent: there is none.
  std::function<std::optional<std::string>(const OpContext&)> why_not;
};

/// The handlers of all operations, which cpu/table.h lists.
class Handlers {
 public:
  Handlers(Tuning* tuning, ProcessGroup* group, bool own_winograd)
      : tuning_(tuning), group_(group), own_winograd_(own_winograd) {}
  Handler& operator[](std::type_index operation) { return all_[operation]; }
  /// Or nullptr.
  const Handler* find(const Operation& op) const {
    const auto found = all_.find(typeid(op));
    return found == all_.end() ? nullptr : &found->second;
  }
  /// The tuning, if algorithms are timed; null: they are chosen by rule.
  Tuning* tuning() const { return tuning_; }
  /// The ranks that train together; null: this process is alone.
  ProcessGroup* group() const { return group_; }
  /// Whether convolutions may be the program's own rather than oneDNN's.
  bool own_winograd() const { return own_winograd_; }

 private:
  std::unordered_map<std::type_index, Handler> all_;
  Tuning* tuning_;
  ProcessGroup* group_;
  bool own_winograd_;
};

/// The reason why this processor cannot compute in a precision, with an alternative.
std::optional<std::string> why_not(Precision precision, bool emulate_bf16);

/// The reorder between two layouts; its implementation's name says how.
Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to);

/// A kernel that calls `function()`; it holds the slots it needs.
template <class Function>
std::unique_ptr<Kernel> kernel(Function function) {
  struct Call final : Kernel {
    explicit Call(Function f) : function(std::move(f)) {}
    void run() override { function(); }
    Function function;
  };
  return std::make_unique<Call>(std::move(function));
}

/// Handler::compile of operations that depend on the rank: compile(group, context, slots).
template <class Compile>
auto for_rank(const ProcessGroup* group, Compile compile) {
  return [group, compile](const OpContext& context, const Choice&, const Slots& slots) {
    return compile(group, context, slots);
  };
}

/// Everything row-major: for operations that index rows and columns.
Choice select_row_major(const OpContext& context, const OpenLayouts& inputs);

/// All tensors of the first input's shape in the first input's layout (row-major if that is still open),
/// everything else row-major: for element-wise operations. With `zero_stays_zero` false a layout with padding
/// is turned row-major, since the padding would not stay zero.
Choice select_same(const OpContext& context, const OpenLayouts& inputs, bool zero_stays_zero);

/// Calls make(element) with an element as tensors of this type store it: float or BFloat16. Loops are
/// compiled for both and compute in f32.
template <class Make>
auto with_storage(DType dtype, const Make& make) {
  return dtype == DType::bf16 ? make(BFloat16{}) : make(float{});
}

template <class T>
T* at(void* const* slot) {
  return static_cast<T*>(*slot);
}

}  // namespace trainer::cpu
