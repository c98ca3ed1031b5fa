// SPDX-License-Identifier: Apache-2.0
#include "cuda/elementwise.h"

#include <string>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/unary.h"
#include "cuda/handler.h"

namespace trainer::cuda {
namespace {

/// A loop over the elements; `launch(slots, count, stream)` starts it.
template <class Launch>
class Loop final : public Kernel {
 public:
  Loop(Launch launch, const Device& device, const OpContext& context, Slots slots)
      : launch_(std::move(launch)),
        name_(context.op.name()),
        slots_(std::move(slots)),
        count_(numel(context.inputs[0].shape)),
        stream_(device.stream.get()) {}
  void run() override { check(launch_(slots_, count_, stream_), name_); }

 private:
  Launch launch_;
  std::string name_;
  Slots slots_;
  int64_t count_;
  cudaStream_t stream_;
};

/// A handler whose kernel starts what launcher(operation) returns.
template <class Op, class Launcher>
Handler loop_over(Launcher launcher) {
  auto select = [](const Device&, const OpContext& context, const OpenLayouts& inputs) {
    return same_layout(context, inputs, "loop");
  };
  auto compile = [launcher](const Device& device, const OpContext& context, const Choice&,
                            const Slots& slots) -> std::unique_ptr<Kernel> {
    auto launch = launcher(static_cast<const Op&>(context.op));
    return std::make_unique<Loop<decltype(launch)>>(std::move(launch), device, context, slots);
  };
  return {select, compile};
}

}  // namespace

void add_elementwise(Handlers& handlers) {
  handlers[typeid(Unary)] = loop_over<Unary>([](const Unary& op) {
    return [f = op.function](const Slots& s, int64_t count, cudaStream_t stream) {
      return launch_unary(f, at<const float>(s.inputs[0]), at<float>(s.outputs[0]), count, stream);
    };
  });
  handlers[typeid(UnaryBackward)] = loop_over<UnaryBackward>([](const UnaryBackward& op) {
    return [f = op.function](const Slots& s, int64_t count, cudaStream_t stream) {
      return launch_unary_backward(f, at<const float>(s.inputs[0]), at<const float>(s.inputs[1]),
                                   at<float>(s.outputs[0]), count, stream);
    };
  });
  handlers[typeid(Binary)] = loop_over<Binary>([](const Binary& op) {
    return [f = op.kind == Binary::Kind::add ? launch_add : launch_mul](const Slots& s, int64_t count,
                                                                        cudaStream_t stream) {
      return f(at<const float>(s.inputs[0]), at<const float>(s.inputs[1]), at<float>(s.outputs[0]), count,
               stream);
    };
  });
}

}  // namespace trainer::cuda
