// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_emulation/backend.h"

#include <algorithm>

#include "core/graph/ops/assign.h"
#include "cuda/conversion.h"
#include "cuda/handler.h"
#include "tests/cuda_emulation/memory.h"

namespace trainer {
namespace {

using emulation::Fence;
using emulation::Window;

/// A kernel that may touch its node's tensors and workspace only, and has to write all of its outputs.
class FencedKernel final : public Kernel {
 public:
  FencedKernel(std::unique_ptr<Kernel> kernel, const OpContext& context, const Choice& choice,
               const Slots& slots)
      : kernel_(std::move(kernel)) {
    const bool assigns = dynamic_cast<const Assign*>(&context.op) != nullptr;
    for (size_t i = 0; i < slots.inputs.size(); ++i) {
      const auto use = assigns && i == 0 ? Window::Use::update : Window::Use::read;
      add(slots.inputs[i], context.inputs[i], choice.inputs[i], use);
    }
    for (size_t i = 0; i < slots.outputs.size(); ++i) {
      add(slots.outputs[i], context.outputs[i], choice.outputs[i], Window::Use::write);
    }
    if (choice.workspace_bytes > 0) {
      ranges_.push_back(
          {slots.workspace, static_cast<size_t>(choice.workspace_bytes), Window::Use::workspace});
    }
  }

  void run() override {
    std::vector<Window> windows;
    for (const Range& range : ranges_) {
      Window window{*range.slot, range.bytes, range.use};
      const bool in_place = std::any_of(windows.begin(), windows.end(),
                                        [&](const Window& other) { return other.begin == window.begin; });
      if (in_place && window.use == Window::Use::write) window.use = Window::Use::update;
      windows.push_back(window);
    }
    const Fence fence(std::move(windows));
    kernel_->run();
    fence.expect_written();
  }

 private:
  struct Range {
    void* const* slot;
    size_t bytes;
    Window::Use use;
  };

  void add(void* const* slot, const TensorSpec& spec, const Layout& layout, Window::Use use) {
    if (slot == nullptr) return;
    const int64_t bytes = stored_elements(layout, spec.shape) * bytes_per_element(spec.dtype);
    ranges_.push_back({slot, static_cast<size_t>(bytes), use});
  }

  std::unique_ptr<Kernel> kernel_;
  std::vector<Range> ranges_;
};

class EmulatedBackend final : public Backend {
 public:
  EmulatedBackend() { cuda::add_own_kernels(handlers_); }

  std::string_view name() const override { return "emulated cuda"; }
  std::optional<std::string> why_not(const OpContext& context) const override {
    return cuda::why_not(handlers_, context);
  }
  Choice select(const OpContext& context, const OpenLayouts& inputs) const override {
    return cuda::find(handlers_, context.op)->select(device_, context, inputs);
  }
  Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const override {
    return cuda::select_reorder(context, from, to);
  }
  std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                  const Slots& slots) const override {
    auto kernel = cuda::find(handlers_, context.op)->compile(device_, context, choice, slots);
    return std::make_unique<FencedKernel>(std::move(kernel), context, choice, slots);
  }

  Buffer allocate(int64_t bytes) override {
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    void* data = nullptr;
    cuda::check(cudaMalloc(&data, size), "allocating");
    cuda::check(cudaMemsetAsync(data, 0, size, nullptr), "clearing");
    return Buffer(data, bytes, [](void* memory) { static_cast<void>(cudaFree(memory)); });
  }
  Buffer allocate_batch(int64_t bytes) override { return allocate(bytes); }
  int64_t memory_bytes() const override { return int64_t{1} << 32; }

  void upload(void* device, const float* host, int64_t elements, DType dtype) override {
    const std::vector<std::byte> stored = cuda::to_stored({host, static_cast<size_t>(elements)}, dtype);
    cuda::check(cudaMemcpyAsync(device, stored.data(), stored.size(), cudaMemcpyHostToDevice, nullptr),
                "copying");
  }
  void download(float* host, const void* device, int64_t elements, DType dtype) override {
    const auto* stored = static_cast<const std::byte*>(device);
    cuda::from_stored({stored, static_cast<size_t>(elements * bytes_per_element(dtype))}, dtype, host);
  }

 private:
  cuda::Device device_;
  cuda::Handlers handlers_;
};

}  // namespace

std::unique_ptr<Backend> make_emulated_backend() {
  return std::make_unique<EmulatedBackend>();
}

}  // namespace trainer
