// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/backend.h"

#include <cstring>
#include <stdexcept>

#include "core/graph/ops/for_each.h"
#include "tests/reference/low_types.h"
#include "tests/reference/table.h"

namespace trainer {
namespace {

reference::Loops all_loops() {
  reference::Loops loops;
#define TRAINER_ADD_ROW(function) reference::function(loops);
  TRAINER_REFERENCE_LOOPS(TRAINER_ADD_ROW)
#undef TRAINER_ADD_ROW
  return loops;
}

/// The calls that a ForEach replaces.
std::vector<reference::Call> calls_of_sets(const ForEach& op, const reference::Call& all) {
  std::vector<reference::Call> calls;
  for (size_t set = 0; set < all.outputs.size() / op.outputs_of_set; ++set) {
    auto part = [set](const auto& of_all, size_t count) {
      const auto first = of_all.begin() + static_cast<std::ptrdiff_t>(set * count);
      return std::decay_t<decltype(of_all)>(first, first + static_cast<std::ptrdiff_t>(count));
    };
    reference::Call call{.op = *op.ops[set],
                         .inputs = part(all.inputs, op.inputs_of_set),
                         .outputs = part(all.outputs, op.outputs_of_set),
                         .slots = all.slots,
                         .rounds = all.rounds};
    call.slots.inputs = part(all.slots.inputs, op.inputs_of_set);
    call.slots.outputs = part(all.slots.outputs, op.outputs_of_set);
    calls.push_back(std::move(call));
  }
  return calls;
}

class LoopKernel final : public Kernel {
 public:
  LoopKernel(reference::Loop loop, reference::Call call) : loop_(loop), call_(std::move(call)) {}
  void run() override {
    loop_(call_);
    if (call_.rounds) round_outputs();
  }

 private:
  void round_outputs() const {
    for (size_t o = 0; o < call_.outputs.size(); ++o) {
      if (!call_.has_output(o) || !is_low(call_.outputs[o].dtype)) continue;
      for (int64_t i = 0; i < call_.count_out(o); ++i) {
        call_.out(o)[i] = reference::rounded(call_.out(o)[i], call_.outputs[o].dtype);
      }
    }
  }

  reference::Loop loop_;
  reference::Call call_;
};

class KernelOfEach final : public Kernel {
 public:
  KernelOfEach(reference::Loop loop, std::vector<reference::Call> calls) {
    for (reference::Call& call : calls) kernels_.emplace_back(loop, std::move(call));
  }
  void run() override {
    for (LoopKernel& kernel : kernels_) kernel.run();
  }

 private:
  std::vector<LoopKernel> kernels_;
};

/// A loop over elements in any order; its output then gets the layout of the choice.
class MovedKernel final : public Kernel {
 public:
  MovedKernel(std::unique_ptr<Kernel> loop, const Choice& choice, const Shape& shape, void* const* output)
      : loop_(std::move(loop)), output_(output) {
    for_each_place(choice.inputs[0], shape, [&](int64_t place) { from_.push_back(place); });
    for_each_place(choice.outputs[0], shape, [&](int64_t place) { to_.push_back(place); });
  }

  void run() override {
    loop_->run();
    auto* values = static_cast<double*>(*output_);
    const std::vector<double> before(values, values + from_.size());
    for (size_t i = 0; i < from_.size(); ++i) values[to_[i]] = before[static_cast<size_t>(from_[i])];
  }

 private:
  std::unique_ptr<Kernel> loop_;
  void* const* output_;
  std::vector<int64_t> from_, to_;
};

class ReferencePlanner final : public Planner {
 public:
  std::string_view name() const override { return "reference"; }
  std::optional<std::string> set_precision(Precision) override { return std::nullopt; }

  std::optional<std::string> why_not(const OpContext& context) const override {
    const auto* each = dynamic_cast<const ForEach*>(&context.op);
    const Operation& op = each == nullptr ? context.op : *each->ops[0];
    if (!loops_.contains(typeid(op))) return "no loop has been written for it";
    return std::nullopt;
  }

  Choice select(const OpContext& context, const OpenLayouts& /*inputs*/) const override {
    return {.inputs = std::vector<Layout>(context.inputs.size()),
            .outputs = std::vector<Layout>(context.outputs.size()),
            .implementation = "naive",
            .algorithm = ""};
  }

  Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const override {
    Choice choice = select(context, {});
    choice.inputs[0] = from;
    choice.outputs[0] = to;
    return choice;
  }

  int64_t element_bytes(DType dtype) const override {
    return is_floating(dtype) ? static_cast<int64_t>(sizeof(double)) : bytes_per_element(dtype);
  }
  int64_t memory_bytes() const override { return int64_t{1} << 32; }

 private:
  reference::Loops loops_ = all_loops();
};

class ReferenceDevice final : public Device {
 public:
  explicit ReferenceDevice(bool rounds) : rounds_(rounds) {}

  Buffer allocate(int64_t bytes) override {
    Buffer buffer = allocate_host(bytes);
    std::memset(buffer.data(), 0, static_cast<size_t>(bytes));
    return buffer;
  }
  Buffer allocate_batch(int64_t bytes) override { return allocate(bytes); }

  std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                  const Slots& slots) const override {
    const reference::Call call{.op = context.op,
                               .inputs = context.inputs,
                               .outputs = context.outputs,
                               .slots = slots,
                               .rounds = rounds_};
    if (const auto* each = dynamic_cast<const ForEach*>(&context.op)) {
      const Operation& op = *each->ops[0];
      return std::make_unique<KernelOfEach>(loops_.at(typeid(op)), calls_of_sets(*each, call));
    }
    auto loop = std::make_unique<LoopKernel>(loops_.at(typeid(context.op)), call);
    if (choice.inputs.empty() || choice.outputs.empty() || choice.inputs[0] == choice.outputs[0]) return loop;
    return std::make_unique<MovedKernel>(std::move(loop), choice, context.outputs[0].shape, slots.outputs[0]);
  }

 private:
  reference::Loops loops_ = all_loops();
  bool rounds_;
};

}  // namespace

Backend make_reference_backend(bool rounds) {
  return {.planner = std::make_unique<ReferencePlanner>(),
          .device = std::make_unique<ReferenceDevice>(rounds)};
}

std::set<std::type_index> reference_operations() {
  std::set<std::type_index> operations;
  for (const auto& [type, loop] : all_loops()) operations.insert(type);
  return operations;
}

}  // namespace trainer
