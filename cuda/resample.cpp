// SPDX-License-Identifier: Apache-2.0
#include "cuda/resample.h"

#include "core/graph/ops/resample2d.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

struct FreeDevice {
  void operator()(void* memory) const { static_cast<void>(cudaFree(memory)); }
};

/// A list's copy in device memory, some kilobytes that belong to the kernel.
template <class T>
std::shared_ptr<T> to_device(const std::vector<T>& values, cudaStream_t stream) {
  const size_t bytes = values.size() * sizeof(T);
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "allocating GPU memory");
  std::shared_ptr<T> copy(static_cast<T*>(memory), FreeDevice{});
  check(cudaMemcpyAsync(memory, values.data(), bytes, cudaMemcpyHostToDevice, stream), "copying");
  check(cudaStreamSynchronize(stream), "waiting for the GPU");
  return copy;
}

/// The taps of one axis, in device memory for as long as the kernel lives.
class OwnedTaps {
 public:
  OwnedTaps(const Taps& taps, cudaStream_t stream)
      : begin_(to_device(std::vector<int32_t>(taps.begin.begin(), taps.begin.end()), stream)),
        input_(to_device(std::vector<int32_t>(taps.input.begin(), taps.input.end()), stream)),
        weight_(to_device(std::vector<float>(taps.weight.begin(), taps.weight.end()), stream)),
        outputs_(static_cast<int32_t>(taps.begin.size()) - 1) {}
  DeviceTaps get() const { return {begin_.get(), input_.get(), weight_.get(), outputs_}; }

 private:
  std::shared_ptr<int32_t> begin_, input_;
  std::shared_ptr<float> weight_;
  int32_t outputs_;
};

Choice select(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return all_channels_last(context, "taps");
}

std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Slots& slots,
                                const Taps& rows, const Taps& columns) {
  const Shape& x = context.inputs[0].shape;
  cudaStream_t stream = gpu.stream.get();
  return kernel(context, [=, rows_on_device = OwnedTaps(rows, stream),
                          columns_on_device = OwnedTaps(columns, stream), dtype = context.inputs[0].dtype] {
    const Resampled images{x[0],
                           x[1],
                           static_cast<int32_t>(x[2]),
                           static_cast<int32_t>(x[3]),
                           rows_on_device.get(),
                           columns_on_device.get()};
    return launch_resample(images, dtype, *slots.inputs[0], *slots.outputs[0], stream);
  });
}

std::unique_ptr<Kernel> compile_forward(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  const Resampling how = static_cast<const Resample2d&>(context.op).how;
  const Shape &x = context.inputs[Resample2d::kX].shape, &y = context.outputs[Resample2d::kY].shape;
  return compile(gpu, context, slots, taps(how, x[2], y[2]), taps(how, x[3], y[3]));
}

std::unique_ptr<Kernel> compile_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  const Resampling how = static_cast<const Resample2dBackward&>(context.op).how;
  const Shape &y = context.inputs[Resample2dBackward::kDy].shape,
              &x = context.outputs[Resample2dBackward::kDx].shape;
  return compile(gpu, context, slots, taps(how, x[2], y[2]).transposed(x[2]),
                 taps(how, x[3], y[3]).transposed(x[3]));
}

}  // namespace

void add_resample(Handlers& handlers) {
  handlers[typeid(Resample2d)] = {select, compile_forward, floats_only};
  handlers[typeid(Resample2dBackward)] = {select, compile_backward, floats_only};
}

}  // namespace trainer::cuda
