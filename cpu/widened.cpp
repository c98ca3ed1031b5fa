// SPDX-License-Identifier: Apache-2.0
#include "cpu/widened.h"

#include <utility>

#include "core/engine/arena.h"

namespace trainer::cpu {
namespace {

constexpr const char* kSuffix = " in f32";

/// The same use of the operation with every bf16 tensor in f32.
OpContext wide_context(OpContext context) {
  for (auto* specs : {&context.inputs, &context.outputs}) {
    for (TensorSpec& spec : *specs) {
      if (spec.dtype == DType::bf16) spec.dtype = DType::f32;
    }
  }
  return context;
}

int64_t copy_bytes(const TensorSpec& spec, const Layout& layout) {
  if (spec.dtype != DType::bf16 || spec.shape.empty()) return 0;
  return align_up(stored_elements(layout, spec.shape) * bytes_per_element(DType::f32));
}

/// What the inner handler wants beyond the copies, which come first.
int64_t bytes_of_copies(const OpContext& context, const Choice& choice) {
  int64_t sum = 0;
  for (size_t i = 0; i < context.inputs.size(); ++i) sum += copy_bytes(context.inputs[i], choice.inputs[i]);
  for (size_t i = 0; i < context.outputs.size(); ++i)
    sum += copy_bytes(context.outputs[i], choice.outputs[i]);
  return sum;
}

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(std::shared_ptr<OneDnn> onednn, const Handler& handler, const OpContext& context,
                Choice choice, const Slots& slots)
      : onednn_(std::move(onednn)), workspace_(slots.workspace) {
    places_.reserve(context.inputs.size() + context.outputs.size() + 1);
    Slots wide = slots;
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      wide.inputs[i] = converted(context.inputs[i], choice.inputs[i], slots.inputs[i], before_, true);
    }
    for (size_t i = 0; i < context.outputs.size(); ++i) {
      wide.outputs[i] = converted(context.outputs[i], choice.outputs[i], slots.outputs[i], after_, false);
    }
    wide.workspace = place(0);
    choice.algorithm.resize(choice.algorithm.size() - std::string(kSuffix).size());
    choice.workspace_bytes -= bytes_of_copies(context, choice);
    inner_ = handler.compile(wide_context(context), choice, wide);
  }

  void run() override {
    update_places();
    for (const auto& kernel : before_) kernel->run();
    inner_->run();
    for (const auto& kernel : after_) kernel->run();
  }

 private:
  /// The slot of the next piece of the workspace.
  void* const* place(int64_t bytes) {
    offsets_.push_back(used_);
    places_.push_back(static_cast<std::byte*>(*workspace_) + used_);
    used_ += bytes;
    return &places_.back();
  }

  /// The slot of a tensor's copy in f32, and the kernel that makes one from the other; the tensor's own slot
  /// where it is f32 or absent.
  void* const* converted(const TensorSpec& spec, const Layout& layout, void* const* slot,
                         std::vector<std::unique_ptr<Kernel>>& kernels, bool to_copy) {
    const int64_t bytes = copy_bytes(spec, layout);
    if (bytes == 0 || slot == nullptr) return slot;
    void* const* copy = place(bytes);
    Argument stored{DNNL_ARG_FROM, to_descriptor(layout, spec.shape, DType::bf16), slot};
    Argument wide{DNNL_ARG_TO, to_descriptor(layout, spec.shape, DType::f32), copy};
    if (!to_copy) {
      std::swap(stored.number, wide.number);
      std::swap(stored, wide);
    }
    const dnnl::reorder::primitive_desc reorder(onednn_->engine, stored.descriptor, onednn_->engine,
                                                wide.descriptor);
    kernels.push_back(primitive_kernel(onednn_, dnnl::reorder(reorder), {stored, wide}));
    return copy;
  }

  void update_places() {
    for (size_t i = 0; i < places_.size(); ++i)
      places_[i] = static_cast<std::byte*>(*workspace_) + offsets_[i];
  }

  std::shared_ptr<OneDnn> onednn_;
  void* const* workspace_;
  int64_t used_ = 0;
  std::vector<int64_t> offsets_;
  std::vector<void*> places_;  ///< never resized once kernels hold their addresses
  std::vector<std::unique_ptr<Kernel>> before_, after_;
  std::unique_ptr<Kernel> inner_;
};

bool is_stored_narrow(const OpContext& context) {
  return !context.inputs.empty() && context.inputs[0].dtype == DType::bf16;
}

}  // namespace

Handler widened(const std::shared_ptr<OneDnn>& onednn, const Handler& handler,
                const std::function<bool(const OpContext&)>& pays, const std::string& algorithm) {
  auto select = [=](const OpContext& context, const OpenLayouts& inputs) {
    if (!is_stored_narrow(context) || !pays(context)) return handler.select(context, inputs);
    Choice wide = handler.select(wide_context(context), inputs);
    if (!wide.algorithm.starts_with(algorithm)) return handler.select(context, inputs);
    wide.workspace_bytes += bytes_of_copies(context, wide);
    wide.algorithm += kSuffix;
    return wide;
  };
  auto compile = [=](const OpContext& context, const Choice& choice,
                     const Slots& slots) -> std::unique_ptr<Kernel> {
    if (!choice.algorithm.ends_with(kSuffix)) return handler.compile(context, choice, slots);
    return std::make_unique<WidenedKernel>(onednn, handler, context, choice, slots);
  };
  return {select, compile, handler.why_not};
}

}  // namespace trainer::cpu
