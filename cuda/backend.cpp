// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <span>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/base/units.h"
#include "cuda/block_sums.h"
#include "cuda/compiled_for.h"
#include "cuda/cudnn/library.h"
#include "cuda/early_launch.h"
#include "cuda/monitor.h"
#include "cuda/nccl_collectives.h"
#include "cuda/planner.h"
#include "cuda/ranges.h"
#include "cuda/table.h"
#include "cuda/timeline.h"

namespace trainer::cuda {
namespace {

/// The oldest architecture that the build compiles for: 8.0, NVIDIA's A100.
constexpr int kLowestMajor = 8;

[[noreturn]] void no_device(const std::string& reason) {
  throw Error(ExitCode::no_device,
              fmt::format("{}; run where a GPU of compute capability {}.0 or newer is available", reason,
                          kLowestMajor));
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// How many GPUs this process sees; refuses if there is none.
int expect_devices() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::string reason = "no CUDA device: cudaGetDeviceCount returned " + describe(status);
    int driver = 0;
    if (status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess) {
      reason += driver == 0 ? ": no NVIDIA driver is installed"
                            : fmt::format(": the driver supports CUDA {}, this was built with {}",
                                          version_text(driver), version_text(CUDART_VERSION));
    }
    no_device(reason);
  }
  return devices;
}

/// The properties of the GPU of this number; refuses one that this library was not compiled for.
cudaDeviceProp expect_device(int index, int devices) {
  if (index >= devices)
    throw Error(ExitCode::no_device,
                fmt::format("device.index={}: this process sees {}, numbered from 0; choose "
                            "one of them, or change CUDA_VISIBLE_DEVICES",
                            index, devices == 1 ? "one GPU" : fmt::format("{} GPUs", devices)));
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "reading the GPU's properties");
  if (properties.major < kLowestMajor) {
    no_device(
        fmt::format("{} has compute capability {}.{}", properties.name, properties.major, properties.minor));
  }
  if (!runs_on(TRAINER_CUDA_ARCHITECTURES, 10 * properties.major + properties.minor)) {
    no_device(fmt::format(
        "{} has compute capability {}.{}, and libtrainer_cuda.so was built for {}: build it on this "
        "machine (scripts/build.sh)",
        properties.name, properties.major, properties.minor, TRAINER_CUDA_ARCHITECTURES));
  }
  return properties;
}

/// All inputs of a timing or a plan of cuDNN besides the graph.
std::string machine_of(const std::string& gpu) {
  // CUDA reports only its own newest release that the driver supports; the driver's file has the driver's
  // own.
  std::string driver;
  std::ifstream file("/proc/driver/nvidia/version");
  std::getline(file, driver);
  return fmt::format("{}, {}, CUDA {}, cuDNN {}, cuBLASLt {}", gpu, driver, version_text(CUDART_VERSION),
                     cudnnGetVersion(), cublasLtGetVersion());
}

struct MemoryInfo {
  size_t free = 0, total = 0;
};
MemoryInfo memory_info() {
  MemoryInfo info;
  check(cudaMemGetInfo(&info.free, &info.total), "reading the GPU's free memory");
  return info;
}

std::shared_ptr<const Gpu> start_gpu(const BackendRequest& request, int index,
                                     const cudaDeviceProp& properties) {
  auto gpu = std::make_shared<Gpu>();
  gpu->name = properties.name;
  gpu->compute_capability = 10 * properties.major + properties.minor;
  gpu->ranks = request.ranks;
  gpu->tuning = request.tuning;
  gpu->tf32 = request.tf32;
  gpu->deterministic = request.deterministic;
  check(cudaSetDevice(index), "choosing the GPU");
  gpu->stream = make<Stream>("making a stream", [](cudaStream_t* stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
  });
  gpu->counters = make_counters(gpu->stream.get());
  gpu->blas = make<BlasHandle>("starting cuBLASLt", cublasLtCreate);
  gpu->machine = machine_of(gpu->name);
  gpu->cache = request.cache;
  gpu->cudnn = cudnn::Library::on_device(gpu->stream.get(), gpu->name, gpu->cache, gpu->machine);
  if (request.group != nullptr) gpu->collectives = make_nccl_collectives(*request.group, gpu->stream.get());
  gpu->free_at_start = static_cast<int64_t>(memory_info().free);
  return gpu;
}

/// Throws Error (exit 71) if the GPU's free memory is all needed by libraries.
void require_more_than_reserve(const Gpu& gpu) {
  const auto [free, total] = memory_info();
  if (static_cast<int64_t>(free) > reserve_of(gpu)) return;
  throw Error(
      ExitCode::out_of_memory,
      fmt::format("{} has {} of {} free, and NVIDIA's libraries and CUDA graphs may need {}: end other "
                  "processes on it (nvidia-smi lists them), or choose another with device.index",
                  gpu.name, human_bytes(static_cast<int64_t>(free)), human_bytes(static_cast<int64_t>(total)),
                  human_bytes(reserve_of(gpu))));
}

/// A GPU that does not start, because another process holds it or its memory, does not count as a device
/// either.
std::shared_ptr<const Gpu> open_gpu(const BackendRequest& request) {
  read_early_launch();
  const int devices = expect_devices();
  const int index = request.group != nullptr ? static_cast<int>(request.local_rank % devices) : request.index;
  const cudaDeviceProp properties = expect_device(index, devices);
  std::shared_ptr<const Gpu> gpu;
  try {
    gpu = start_gpu(request, index, properties);
  } catch (const Error& problem) {
    throw Error(ExitCode::no_device, fmt::format("{} cannot be used: {}", properties.name, problem.what()));
  }
  require_more_than_reserve(*gpu);
  return gpu;
}

/// Of the GPU that this thread uses.
std::unique_ptr<Monitor> open_monitor() {
  int index = 0;
  check(cudaGetDevice(&index), "asking for the GPU's number");
  std::array<char, 32> bus{};
  check(cudaDeviceGetPCIBusId(bus.data(), bus.size(), index), "asking for the GPU's place");
  return Monitor::open(bus.data());
}

class CudaPlanner final : public GpuPlanner {
 public:
  using GpuPlanner::GpuPlanner;

  /// Free bytes and those of its buffers, without the reserve. Timings launch kernels before a plan is made:
  /// CUDA's memory for them is part of the reserve and is not subtracted twice.
  int64_t memory_bytes() const override {
    const int64_t free = static_cast<int64_t>(memory_info().free) + *gpu().held;
    const int64_t reserve = reserve_of(gpu());
    return free - reserve + std::clamp<int64_t>(gpu().free_at_start - free, 0, reserve);
  }
  /// Ranks take GPUs in turn. If only one is visible, the launcher has given each rank its own: NCCL refuses
  /// two ranks on one GPU.
  int64_t ranks_on_device(int64_t ranks) const override {
    const int devices = expect_devices();
    return devices == 1 ? 1 : (ranks + devices - 1) / devices;
  }

  std::map<std::string, std::string> facts() const override {
    return {{"gpu", gpu().name},
            {"cuda", version_text(CUDART_VERSION)},
            {"cudnn", gpu().cudnn->title()},
            {"cublaslt", std::to_string(cublasLtGetVersion())}};
  }
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<const Gpu> gpu, std::shared_ptr<const Handlers> handlers)
      : gpu_(std::move(gpu)),
        handlers_(std::move(handlers)),
        monitor_(open_monitor()),
        timeline_(gpu_->stream.get()) {}

  Buffer allocate(int64_t bytes) override {
    // An empty buffer still gets an address, so that sub-arrays of it can be formed.
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, size);
    if (status == cudaErrorMemoryAllocation) out_of_memory(bytes);
    check(status, "allocating GPU memory");
    *gpu_->held += bytes;
    Buffer buffer(data, bytes, [held = gpu_->held, bytes](void* memory) {
      static_cast<void>(cudaFree(memory));
      *held -= bytes;
    });
    check(cudaMemsetAsync(data, 0, size, gpu_->stream.get()), "clearing GPU memory");
    return buffer;
  }

  /// Page-locked: the GPU copies from it without the host's help, and may read it in place.
  Buffer allocate_batch(int64_t bytes) override {
    void* data = nullptr;
    check(cudaHostAlloc(&data, static_cast<size_t>(std::max<int64_t>(bytes, 1)), cudaHostAllocDefault),
          "allocating page-locked memory");
    return Buffer(data, bytes, [](void* memory) { static_cast<void>(cudaFreeHost(memory)); });
  }

  std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                  const Slots& slots) const override {
    return in_range(context.label, handlers_->at(typeid(context.op)).compile(*gpu_, context, choice, slots));
  }
  std::unique_ptr<Kernel> capture_graph(const std::function<void()>& work, const Warn& warn) override {
    return timeline_.capture_graph(work, warn);
  }

  int64_t record_event() override { return timeline_.record_event(); }
  bool query(int64_t event) override { return timeline_.query(event); }
  /// NCCL reports a failed link only if asked, and the work that it has enqueued never ends.
  void synchronize(int64_t event) override {
    if (gpu_->collectives == nullptr) return timeline_.synchronize(event);
    for (; !timeline_.query(event); std::this_thread::sleep_for(std::chrono::microseconds(100)))
      gpu_->collectives->require_healthy();
  }
  std::unique_ptr<Stopwatch> make_stopwatch(size_t marks) override { return timeline_.make_stopwatch(marks); }

  void copy_to_host(std::span<std::byte> host, const void* device) override {
    copy_to_host_async(host, device);
    finish_copy();
  }
  void copy_to_device(void* device, std::span<const std::byte> host) override {
    check(cudaMemcpyAsync(device, host.data(), host.size(), cudaMemcpyHostToDevice, gpu_->stream.get()),
          "copying to the GPU");
    finish_copy();
  }
  void copy_to_host_async(std::span<std::byte> host, const void* device) override {
    check(cudaMemcpyAsync(host.data(), device, host.size(), cudaMemcpyDeviceToHost, gpu_->stream.get()),
          "copying from the GPU");
  }
  void copy_to_device_async(std::span<const HostCopy> copies, int64_t after) override {
    timeline_.copy_to_device_async(copies, after);
  }

  void join_ranks() override {
    if (gpu_->collectives != nullptr) gpu_->collectives->join();
  }

  std::vector<std::string> remarks() override {
    LostVariances lost = 0;
    copy_to_host(std::as_writable_bytes(std::span(&lost, 1)), lost_variances(gpu_->counters.get()));
    if (lost == 0) return {};
    return {fmt::format(
        "batch normalisation within products lost {} variance{} to rounding, and took 1/16384 of the mean "
        "square instead; --disable-pass gram_batch_norm trains without it",
        lost, lost == 1 ? "" : "s")};
  }

  DeviceReading read_device() const override {
    return monitor_ == nullptr ? DeviceReading{} : monitor_->read();
  }

 private:
  void finish_copy() { check(cudaStreamSynchronize(gpu_->stream.get()), "waiting for the GPU"); }

  [[noreturn]] void out_of_memory(int64_t bytes) const {
    const auto [free, total] = memory_info();
    const auto others = static_cast<int64_t>(total - free) - *gpu_->held;
    throw Error(
        ExitCode::out_of_memory,
        fmt::format("out of GPU memory: requested {}, free {} of {}; this run holds {}, other processes "
                    "and NVIDIA's libraries {}; lower training.micro_batch_size",
                    human_bytes(bytes), human_bytes(static_cast<int64_t>(free)),
                    human_bytes(static_cast<int64_t>(total)), human_bytes(*gpu_->held), human_bytes(others)));
  }

  std::shared_ptr<const Gpu> gpu_;
  std::shared_ptr<const Handlers> handlers_;
  std::unique_ptr<Monitor> monitor_;  ///< null if there is none
  Timeline timeline_;                 ///< of the stream
};

}  // namespace

std::shared_ptr<const Handlers> all_handlers() {
  auto handlers = std::make_shared<Handlers>(own_handlers());
#define TRAINER_ADD_ROW(function) function(*handlers);
  TRAINER_CUDA_LIBRARIES(TRAINER_ADD_ROW)
#undef TRAINER_ADD_ROW
  return handlers;
}

Backend make_backend(const BackendRequest& request) {
  if (request.described != nullptr) return {.planner = make_described_planner(request), .device = nullptr};
  const auto gpu = open_gpu(request);
  const auto handlers = all_handlers();
  return {.planner = std::make_unique<CudaPlanner>(gpu, handlers),
          .device = std::make_unique<CudaDevice>(gpu, handlers)};
}

}  // namespace trainer::cuda
