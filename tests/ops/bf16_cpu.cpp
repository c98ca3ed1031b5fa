// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/bf16_cpu.h"

#include <algorithm>
#include <optional>

#include "core/base/bfloat16.h"
#include "core/engine/layout.h"
#include "core/graph/operation.h"
#include "cpu/backend.h"

namespace trainer {
namespace {

const std::string kWidened = "widened, ";

std::vector<TensorSpec> widened(std::vector<TensorSpec> specs) {
  for (TensorSpec& spec : specs) {
    if (spec.dtype == DType::bf16) spec.dtype = DType::f32;
  }
  return specs;
}

OpContext widened(const OpContext& context) {
  return {.op = context.op,
          .inputs = widened(context.inputs),
          .outputs = widened(context.outputs),
          .label = context.label};
}

/// Calls select(context) or, if that fails, that of the widened operation.
template <class Select>
Choice select_somehow(const OpContext& context, const Select& select) {
  try {
    return select(context);
  } catch (const std::exception&) {  // oneDNN's status for a missing primitive
    Choice choice = select(widened(context));
    choice.implementation = kWidened + choice.implementation;
    return choice;
  }
}

class Bf16Planner final : public Planner {
 public:
  explicit Bf16Planner(std::unique_ptr<Planner> cpu)
      : cpu_(std::move(cpu)), widens_(cpu_->set_precision(Precision::amp_bf16).has_value()) {}

  std::string_view name() const override { return "cpu"; }
  std::optional<std::string> why_not(const OpContext& context) const override {
    return cpu_->why_not(widens_ ? widened(context) : context);
  }
  Choice select(const OpContext& context, const OpenLayouts& inputs) const override {
    return select_somehow(context, [&](const OpContext& c) { return cpu_->select(c, inputs); });
  }
  Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const override {
    return select_somehow(context, [&](const OpContext& c) { return cpu_->select_reorder(c, from, to); });
  }
  int64_t memory_bytes() const override { return cpu_->memory_bytes(); }

 private:
  std::unique_ptr<Planner> cpu_;
  bool widens_;
};

/// A tensor of bf16, and the same in f32 for the kernel.
struct WideCopy {
  void* const* narrow;
  std::vector<float> wide;
  void* address;

  WideCopy(void* const* slot, int64_t elements)
      : narrow(slot), wide(static_cast<size_t>(elements)), address(wide.data()) {}
  void widen() {
    const auto* from = static_cast<const BFloat16*>(*narrow);
    std::transform(from, from + wide.size(), wide.begin(), [](BFloat16 value) { return float(value); });
  }
  void round() const {
    std::transform(wide.begin(), wide.end(), static_cast<BFloat16*>(*narrow),
                   [](float value) { return BFloat16(value); });
  }
};

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const Device& cpu, const OpContext& context, Choice choice, Slots slots) {
    choice.implementation.erase(0, kWidened.size());
    replace(context.inputs, choice.inputs, slots.inputs, inputs_);
    replace(context.outputs, choice.outputs, slots.outputs, outputs_);
    kernel_ = cpu.compile(widened(context), choice, slots);
  }

  void run() override {
    for (const auto& input : inputs_) input->widen();
    kernel_->run();
    for (const auto& output : outputs_) output->round();
  }

 private:
  using Copies = std::vector<std::unique_ptr<WideCopy>>;  // they keep their addresses: slots point to them

  static void replace(const std::vector<TensorSpec>& specs, const std::vector<Layout>& layouts,
                      std::vector<void* const*>& slots, Copies& copies) {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] == nullptr || specs[i].dtype != DType::bf16) continue;
      copies.push_back(std::make_unique<WideCopy>(slots[i], stored_elements(layouts[i], specs[i].shape)));
      slots[i] = &copies.back()->address;
    }
  }

  Copies inputs_, outputs_;
  std::unique_ptr<Kernel> kernel_;
};

class Bf16Device final : public Device {
 public:
  explicit Bf16Device(std::unique_ptr<Device> cpu) : cpu_(std::move(cpu)) {}

  Buffer allocate(int64_t bytes) override { return cpu_->allocate(bytes); }
  Buffer allocate_batch(int64_t bytes) override { return cpu_->allocate_batch(bytes); }
  std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                  const Slots& slots) const override {
    if (!choice.implementation.starts_with(kWidened)) return cpu_->compile(context, choice, slots);
    return std::make_unique<WidenedKernel>(*cpu_, context, choice, slots);
  }

 private:
  std::unique_ptr<Device> cpu_;
};

}  // namespace

Backend make_bf16_cpu_backend(int threads) {
  Backend cpu = make_cpu_backend(threads, nullptr, true);
  return {.planner = std::make_unique<Bf16Planner>(std::move(cpu.planner)),
          .device = std::make_unique<Bf16Device>(std::move(cpu.device))};
}

}  // namespace trainer
