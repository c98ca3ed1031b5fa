// SPDX-License-Identifier: Apache-2.0
#include "cpu/backend.h"

#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <latch>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "cpu/monitor.h"
#include "cpu/onednn.h"
#include "cpu/onednn_memory.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer {
namespace {

/// General products of matrices share code that oneDNN generates when the first of them runs. That may be on
/// several threads, which must not fail for lack of memory, so one runs here, of a size that takes no
/// shortcut.
void generate_products() {
  constexpr int64_t kSize = 16;
  cpu::reserve_room_for_code();
  const std::array<float, kSize * kSize> factor{};
  std::array<float, kSize * kSize> product{};
  if (dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1, factor.data(), kSize, factor.data(), kSize, 0,
                 product.data(), kSize) != dnnl_success)
    throw std::bad_alloc();
}

/// State shared by planner and device.
std::shared_ptr<const cpu::Handlers> make_handlers(Tuning* tuning, ProcessGroup* group, bool own_winograd) {
  auto handlers = std::make_shared<cpu::Handlers>(tuning, group, own_winograd);
#define TRAINER_ADD_ROW(function) cpu::function(*handlers);
  TRAINER_CPU_HANDLERS(TRAINER_ADD_ROW)
#undef TRAINER_ADD_ROW
  return handlers;
}

/// OpenMP ends the process if a thread cannot be started: checks that first, then starts them.
void start_threads(int count) {
  {
    std::latch all(1);
    std::vector<std::jthread> probes;
    const auto release = [&](std::latch* latch) { latch->count_down(); };
    const std::unique_ptr<std::latch, decltype(release)> released(&all, release);  // before they are joined
    for (int i = 1; i < count; ++i) probes.emplace_back([&all] { all.wait(); });
  }
#pragma omp parallel num_threads(count)
  {}
}

/// Loops and oneDNN divide their work by the number of threads, so results depend on it bit for bit.
/// Variables of OpenMP may not change it.
void use_threads(int count) {
  omp_set_num_threads(count);
  omp_set_dynamic(0);
  omp_set_max_active_levels(1);
  if (omp_get_thread_limit() < count) {
    throw Error(
        ExitCode::recipe,
        fmt::format("device.threads: the environment variable OMP_THREAD_LIMIT={} allows fewer than {} "
                    "threads; unset it, or set device.threads={}",
                    omp_get_thread_limit(), count, omp_get_thread_limit()));
  }
  start_threads(count);
}

/// Whether an operation takes longer on one thread than the overhead of several threads.
bool is_worth_threads(const OpContext& context) {
  constexpr double kWork = 1 << 19, kWorkOfElement = 16;  // about 10 us of one thread
  double elements = 0;
  for (const auto* specs : {&context.inputs, &context.outputs}) {
    for (const TensorSpec& spec : *specs) {
      if (is_given(spec)) elements += static_cast<double>(numel(spec.shape));
    }
  }
  return context.op.flops(context.inputs, context.outputs) + kWorkOfElement * elements >= kWork;
}

/// While it exists, this thread's calls of oneDNN and of our loops are not divided.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// Calls make() so that its result uses the number of threads that the operation is worth.
template <class Make>
auto on_its_threads(const OpContext& context, const Make& make) {
  std::optional<OneThread> alone;
  if (!is_worth_threads(context)) alone.emplace();
  cpu::reserve_room_for_code();
  return cpu::telling_of_memory(make);
}

/// The kernel of a small operation.
class SmallKernel final : public Kernel {
 public:
  explicit SmallKernel(std::unique_ptr<Kernel> whole) : whole_(std::move(whole)) {}
  void run() override {
    const OneThread alone;
    whole_->run();
  }

 private:
  std::unique_ptr<Kernel> whole_;
};

class CpuPlanner final : public Planner {
 public:
  CpuPlanner(std::shared_ptr<const cpu::Handlers> handlers, bool emulate_bf16, HostMemory memory)
      : handlers_(std::move(handlers)), emulate_bf16_(emulate_bf16), memory_(std::move(memory)) {}

  std::string_view name() const override { return "cpu"; }

  std::optional<std::string> set_precision(Precision precision) override {
    return cpu::why_not(precision, emulate_bf16_);
  }

  std::optional<std::string> why_not(const OpContext& context) const override {
    const cpu::Handler* handler = handlers_->find(context.op);
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

  Choice select(const OpContext& context, const OpenLayouts& inputs) const override {
    return on_its_threads(context, [&] { return handlers_->find(context.op)->select(context, inputs); });
  }

  Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const override {
    return on_its_threads(context, [&] { return cpu::select_reorder(context, from, to); });
  }

  int64_t memory_bytes() const override {
    if (memory_.bytes > 0) return memory_.bytes;
    return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  }
  std::string memory_limit() const override { return memory_.limit; }
  /// The memory is this rank's already.
  int64_t ranks_on_device(int64_t /*ranks*/) const override { return 1; }

  std::map<std::string, std::string> facts() const override {
    return {{"onednn", onednn_version()},
            {"processor", processor_name()},
            {"instructions", cpu::instructions_in_use()},
            {fact_name::kThreads, std::to_string(omp_get_max_threads())}};
  }

 private:
  std::shared_ptr<const cpu::Handlers> handlers_;
  bool emulate_bf16_;
  HostMemory memory_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(std::shared_ptr<const cpu::Handlers> handlers)
      : handlers_(std::move(handlers)), monitor_(std::make_unique<cpu::Monitor>(omp_get_max_threads())) {
    generate_products();
  }

  Buffer allocate(int64_t bytes) override {
    Buffer buffer = allocate_host(bytes);
    // Touched here, so that the first step does not pay for the pages; by all threads, since most of the time
    // is spent in the kernel clearing them.
    cpu::parallel_ranges(bytes, 4096, int64_t{1} << 22, [&](int64_t begin, int64_t end) {
      std::memset(buffer.data() + begin, 0, static_cast<size_t>(end - begin));
    });
    return buffer;
  }
  Buffer allocate_batch(int64_t bytes) override { return allocate_host(bytes); }

  std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                  const Slots& slots) const override {
    auto kernel =
        on_its_threads(context, [&] { return handlers_->find(context.op)->compile(context, choice, slots); });
    if (is_worth_threads(context)) return kernel;
    return std::make_unique<SmallKernel>(std::move(kernel));
  }

  DeviceReading read_device() const override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return monitor_->read(std::chrono::duration<double>(now).count());
  }
  std::vector<std::string> missing_readings() const override { return monitor_->missing(); }

 private:
  std::shared_ptr<const cpu::Handlers> handlers_;
  std::unique_ptr<cpu::Monitor> monitor_;
};

}  // namespace

/// The state that OpenMP found when the process began: if it binds threads, this one has been left a
/// single core since.
int available_threads() {
  return std::max(1, omp_get_num_procs());
}

void limit_cpu_instructions(const std::string& name) {
  cpu::limit_instructions(name);
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

Backend make_cpu_backend(int threads, Tuning* tuning, bool emulate_bf16, ProcessGroup* group,
                         bool own_winograd, HostMemory memory) {
  cpu::avoid_amx();
  cpu::throw_where_onednn_gets_no_memory();
  use_threads(threads > 0 ? threads : available_threads());
  const auto handlers = make_handlers(tuning, group, own_winograd);
  return {.planner = std::make_unique<CpuPlanner>(handlers, emulate_bf16, std::move(memory)),
          .device = std::make_unique<CpuDevice>(handlers)};
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
