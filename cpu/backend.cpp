// SPDX-License-Identifier: Apache-2.0
#include "cpu/backend.h"

#include <fmt/format.h>
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "core/graph/ops/reorder.h"
#include "cpu/handler.h"
#include "cpu/parallel.h"

namespace trainer {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, Tuning* tuning, bool emulate_bf16) : emulate_bf16_(emulate_bf16) {
    omp_set_num_threads(threads > 0 ? threads : available_threads());
    cpu::add_convolution(handlers_, tuning);
    cpu::add_guards(handlers_);
    cpu::add_inner_product(handlers_);
    cpu::add_pixels(handlers_);
    cpu::add_pooling(handlers_);
    cpu::add_elementwise(handlers_);
    cpu::add_movement(handlers_);
    cpu::add_loss(handlers_);
    cpu::add_loss_scale(handlers_);
    cpu::add_optimizer(handlers_);
    cpu::add_batch_norm(handlers_);
    cpu::add_batch_norm_backward(handlers_);
    cpu::add_batch_norm_inference(handlers_);
    cpu::add_channels(handlers_);
    cpu::add_resample(handlers_);
    cpu::add_stochastic_depth(handlers_);
  }

  std::string_view name() const override { return "cpu"; }

  std::map<std::string, std::string> facts() const override {
    return {{"onednn", onednn_version()},
            {"processor", processor_name()},
            {"threads", std::to_string(omp_get_max_threads())}};
  }

  std::optional<std::string> why_not(const OpContext& context) const override {
    const cpu::Handler* handler = find(context);
    if (handler == nullptr) return "the CPU has no implementation of it";
    for (const std::vector<TensorSpec>* specs : {&context.inputs, &context.outputs}) {
      for (const TensorSpec& spec : *specs) {
        if (!is_low(spec.dtype)) continue;
        const Precision needed = spec.dtype == DType::bf16 ? Precision::amp_bf16 : Precision::amp_fp16;
        if (auto reason = cpu::why_not(needed, emulate_bf16_)) return reason;
      }
    }
    return handler->why_not ? handler->why_not(context) : std::nullopt;
  }

  std::optional<std::string> set_precision(Precision precision) override {
    return cpu::why_not(precision, emulate_bf16_);
  }

  Choice select(const OpContext& context, const OpenLayouts& inputs) const override {
    return find(context)->select(context, inputs);
  }

  Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const override {
    return cpu::select_reorder(context, from, to);
  }

  std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                  const Slots& slots) const override {
    return find(context)->compile(context, choice, slots);
  }

  Buffer allocate(int64_t bytes) override {
    Buffer buffer = allocate_host(bytes);
    // Touched here, so that the first step does not pay for the pages; by all threads, since most of the time
    // goes into the kernel's clearing of them.
    cpu::parallel_ranges(bytes, 4096, int64_t{1} << 22, [&](int64_t begin, int64_t end) {
      std::memset(buffer.data() + begin, 0, static_cast<size_t>(end - begin));
    });
    return buffer;
  }
  Buffer allocate_batch(int64_t bytes) override { return allocate_host(bytes); }

  int64_t memory_bytes() const override {
    return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  }

  void upload(void* device, const float* host, int64_t elements, DType dtype) override {
    if (dtype == DType::i32) {
      std::transform(host, host + elements, static_cast<int32_t*>(device),
                     [](float value) { return static_cast<int32_t>(value); });
    } else if (dtype == DType::u8) {
      std::transform(host, host + elements, static_cast<uint8_t*>(device),
                     [](float value) { return static_cast<uint8_t>(value); });
    } else if (dtype == DType::bf16) {
      std::transform(host, host + elements, static_cast<BFloat16*>(device),
                     [](float value) { return BFloat16(value); });
    } else {
      std::copy(host, host + elements, static_cast<float*>(device));
    }
  }
  void download(float* host, const void* device, int64_t elements, DType dtype) override {
    if (dtype == DType::i32) {
      const auto* from = static_cast<const int32_t*>(device);
      std::transform(from, from + elements, host, [](int32_t value) { return static_cast<float>(value); });
    } else if (dtype == DType::bf16) {
      const auto* from = static_cast<const BFloat16*>(device);
      std::transform(from, from + elements, host, [](BFloat16 value) { return static_cast<float>(value); });
    } else {
      const auto* from = static_cast<const float*>(device);
      std::copy(from, from + elements, host);
    }
  }

 private:
  const cpu::Handler* find(const OpContext& context) const {
    const auto found = handlers_.find(std::type_index(typeid(context.op)));
    return found == handlers_.end() ? nullptr : &found->second;
  }

  cpu::Handlers handlers_;
  bool emulate_bf16_;
};

}  // namespace

int available_threads() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::max(1, CPU_COUNT(&allowed));
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

std::unique_ptr<Backend> make_cpu_backend(int threads, Tuning* tuning, bool emulate_bf16) {
  return std::make_unique<CpuBackend>(threads, tuning, emulate_bf16);
}

namespace cpu {

Choice select_row_major(const OpContext& context, const OpenLayouts& /*inputs*/) {
  return {.inputs = std::vector<Layout>(context.inputs.size()),
          .outputs = std::vector<Layout>(context.outputs.size()),
          .implementation = "loop",
          .algorithm = ""};
}

Choice select_same(const OpContext& context, const OpenLayouts& inputs, bool zero_stays_zero) {
  Choice choice = select_row_major(context, inputs);
  Layout layout = inputs[0].value_or(Layout{});
  if (layout.has_padding() && !zero_stays_zero) layout = Layout{};
  auto follows = [&](const TensorSpec& spec) { return spec.shape == context.inputs[0].shape; };
  for (size_t i = 0; i < choice.inputs.size(); ++i) {
    if (follows(context.inputs[i])) choice.inputs[i] = layout;
  }
  for (size_t i = 0; i < choice.outputs.size(); ++i) {
    if (follows(context.outputs[i])) choice.outputs[i] = layout;
  }
  return choice;
}

}  // namespace cpu
}  // namespace trainer
