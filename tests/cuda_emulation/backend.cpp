// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_emulation/backend.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/graph/ops/assign.h"
#include "cuda/nccl_collectives.h"
#include "cuda/planner.h"
#include "tests/cuda_emulation/faults.h"
#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_standin/runtime.h"

namespace trainer {
namespace {

using emulation::Fence;
using emulation::Window;

/// A kernel that may only touch its node's tensors and workspace, and must write all of its outputs. It
/// starts the number of kernels in its Choice.
class FencedKernel final : public Kernel {
 public:
  FencedKernel(std::unique_ptr<Kernel> kernel, const OpContext& context, const Choice& choice,
               const Slots& slots)
      : kernel_(std::move(kernel)), name_(context.op.name()), kernels_(choice.kernels) {
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
    bool works_in_place = false;
    for (const Range& range : ranges_) {
      Window window{*range.slot, range.bytes, range.use};
      const bool in_place = std::any_of(windows.begin(), windows.end(),
                                        [&](const Window& other) { return other.begin == window.begin; });
      works_in_place = works_in_place || in_place;
      if (in_place && window.use == Window::Use::write) window.use = Window::Use::update;
      windows.push_back(window);
    }
    const Fence fence(std::move(windows));
    const int64_t before = standin::enqueued();
    kernel_->run();
    const int64_t started = standin::enqueued() - before;
    if (started > kernels_ || (started < kernels_ && !works_in_place)) {
      emulation::report("plan",
                        fmt::format("{} starts {} kernels, its Choice says {}", name_, started, kernels_));
    }
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
  std::string name_;
  int64_t kernels_;
  std::vector<Range> ranges_;
};

class EmulatedPlanner final : public cuda::GpuPlanner {
 public:
  using GpuPlanner::GpuPlanner;
  std::string_view name() const override { return "emulated cuda"; }
  bool is_async() const override { return false; }
  int64_t memory_bytes() const override { return int64_t{1} << 32; }
};

class EmulatedDevice final : public Device {
 public:
  EmulatedDevice(std::shared_ptr<const cuda::Gpu> gpu, std::shared_ptr<const cuda::Handlers> handlers)
      : gpu_(std::move(gpu)), handlers_(std::move(handlers)) {}

  Buffer allocate(int64_t bytes) override {
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    void* data = nullptr;
    cuda::check(cudaMalloc(&data, size), "allocating");
    cuda::check(cudaMemsetAsync(data, 0, size, nullptr), "clearing");
    return Buffer(data, bytes, [](void* memory) { static_cast<void>(cudaFree(memory)); });
  }
  Buffer allocate_batch(int64_t bytes) override { return allocate(bytes); }

  std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                  const Slots& slots) const override {
    auto kernel = handlers_->at(typeid(context.op)).compile(*gpu_, context, choice, slots);
    return std::make_unique<FencedKernel>(std::move(kernel), context, choice, slots);
  }

  void copy_to_device(void* device, std::span<const std::byte> host) override {
    cuda::check(cudaMemcpyAsync(device, host.data(), host.size(), cudaMemcpyHostToDevice, nullptr),
                "copying");
  }

 private:
  std::shared_ptr<const cuda::Gpu> gpu_;
  std::shared_ptr<const cuda::Handlers> handlers_;
};

/// Says which rank this is. Nothing is started.
class PlaceCollectives final : public cuda::GpuCollectives {
 public:
  explicit PlaceCollectives(ProcessGroup& group) : group_(group) {}
  void join() override {}
  void require_healthy() override {}
  ProcessGroup& group() const override { return group_; }
  void start_all_reduce(int64_t, Axis, std::span<const std::span<float>>) override { refuse(); }
  void start_broadcast(int64_t, int64_t, std::span<const std::span<float>>) override { refuse(); }
  void start_all_gather(int64_t, Axis, std::span<const Gathered>) override { refuse(); }
  void start_reduce_scatter(int64_t, Axis, std::span<const Scattered>) override { refuse(); }
  void start_exchange(int64_t, std::span<const Sent>, std::span<const Received>) override { refuse(); }
  void wait(int64_t) override { refuse(); }

 private:
  [[noreturn]] static void refuse() { throw std::logic_error("there are no other ranks"); }

  ProcessGroup& group_;
};

}  // namespace

Backend make_emulated_backend(ProcessGroup* group) {
  const auto gpu = std::make_shared<cuda::Gpu>();
  if (group != nullptr) gpu->collectives = std::make_shared<PlaceCollectives>(*group);
  gpu->counters = cuda::make_counters(nullptr);
  const auto handlers = std::make_shared<const cuda::Handlers>(cuda::own_handlers());
  return {.planner = std::make_unique<EmulatedPlanner>(gpu, handlers),
          .device = std::make_unique<EmulatedDevice>(gpu, handlers)};
}

}  // namespace trainer
