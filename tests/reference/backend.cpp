// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/backend.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "tests/reference/loop.h"
#include "tests/reference/low_types.h"

namespace trainer {
namespace {

const reference::Loops& loops() {
  static const reference::Loops table = [] {
    reference::Loops all;
    reference::add_batch_norm(all);
    reference::add_channels(all);
    reference::add_convolution(all);
    reference::add_elementwise(all);
    reference::add_guards(all);
    reference::add_linear(all);
    reference::add_loss(all);
    reference::add_loss_scale(all);
    reference::add_movement(all);
    reference::add_optimizer(all);
    reference::add_pooling(all);
    reference::add_resample(all);
    return all;
  }();
  return table;
}

class LoopKernel final : public Kernel {
 public:
  LoopKernel(reference::Loop loop, reference::Call call, bool rounds)
      : loop_(loop), call_(std::move(call)), rounds_(rounds) {}
  void run() override {
    loop_(call_);
    if (rounds_) round_outputs();
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
  bool rounds_;
};

}  // namespace

std::optional<std::string> ReferenceBackend::why_not(const OpContext& context) const {
  if (!loops().contains(typeid(context.op))) return "no loop has been written for it";
  return std::nullopt;
}

Choice ReferenceBackend::select(const OpContext& context, const OpenLayouts& /*inputs*/) const {
  return {.inputs = std::vector<Layout>(context.inputs.size()),
          .outputs = std::vector<Layout>(context.outputs.size()),
          .implementation = "naive",
          .algorithm = ""};
}

Choice ReferenceBackend::select_reorder(const OpContext& context, const Layout& from,
                                        const Layout& to) const {
  if (!from.row_major() || !to.row_major())
    throw std::logic_error("the reference knows row-major layouts only");
  return select(context, {});
}

std::unique_ptr<Kernel> ReferenceBackend::compile(const OpContext& context, const Choice& /*choice*/,
                                                  const Slots& slots) const {
  const reference::Call call{
      .op = context.op, .inputs = context.inputs, .outputs = context.outputs, .slots = slots};
  return std::make_unique<LoopKernel>(loops().at(typeid(context.op)), call, rounds_);
}

int64_t ReferenceBackend::element_bytes(DType dtype) const {
  return is_floating(dtype) ? static_cast<int64_t>(sizeof(double)) : bytes_per_element(dtype);
}

Buffer ReferenceBackend::allocate(int64_t bytes) {
  Buffer buffer = allocate_host(bytes);
  std::memset(buffer.data(), 0, static_cast<size_t>(bytes));
  return buffer;
}

void ReferenceBackend::upload(void* device, const float* host, int64_t elements, DType dtype) {
  if (dtype == DType::i32) {
    std::transform(host, host + elements, static_cast<int32_t*>(device),
                   [](float value) { return static_cast<int32_t>(value); });
  } else if (dtype == DType::u8) {
    std::transform(host, host + elements, static_cast<uint8_t*>(device),
                   [](float value) { return static_cast<uint8_t>(value); });
  } else {
    std::copy(host, host + elements, static_cast<double*>(device));
  }
}

void ReferenceBackend::download(float* host, const void* device, int64_t elements, DType dtype) {
  if (dtype == DType::i32) {
    const auto* from = static_cast<const int32_t*>(device);
    std::transform(from, from + elements, host, [](int32_t value) { return static_cast<float>(value); });
  } else {
    const auto* from = static_cast<const double*>(device);
    std::transform(from, from + elements, host, [](double value) { return static_cast<float>(value); });
  }
}

}  // namespace trainer
