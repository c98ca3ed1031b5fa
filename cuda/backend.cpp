// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/units.h"
#include "cuda/conversion.h"
#include "cuda/cudnn/library.h"
#include "cuda/monitor.h"
#include "cuda/planning_backend.h"
#include "cuda/ranges.h"
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

/// The GPU's properties; refuses where the runtime finds none, or only one that this library was not compiled
/// for.
cudaDeviceProp expect_device() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::string reason = "no CUDA device: cudaGetDeviceCount says " + describe(status);
    int driver = 0;
    if (status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess) {
      reason += driver == 0 ? ": no NVIDIA driver is installed"
                            : fmt::format(": the driver knows CUDA {}, this was built with {}",
                                          version_text(driver), version_text(CUDART_VERSION));
    }
    no_device(reason);
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "reading the GPU's properties");
  if (properties.major < kLowestMajor) {
    no_device(
        fmt::format("{} has compute capability {}.{}", properties.name, properties.major, properties.minor));
  }
  return properties;
}

class CudaBackend final : public PlanningBackend {
 public:
  explicit CudaBackend(const BackendRequest& request) {
    const cudaDeviceProp properties = expect_device();
    device_.name = properties.name;
    device_.compute_capability = 10 * properties.major + properties.minor;
    device_.tuning = request.tuning;
    device_.tf32 = request.tf32;
    device_.deterministic = request.deterministic;
    check(cudaSetDevice(0), "choosing the GPU");
    device_.stream = make<Stream>("making a stream", [](cudaStream_t* stream) {
      return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
    });
    timeline_.emplace(device_.stream.get());
    std::array<char, 32> bus{};
    check(cudaDeviceGetPCIBusId(bus.data(), bus.size(), 0), "asking for the GPU's place");
    monitor_ = Monitor::open(bus.data());
    device_.blas = make<BlasHandle>("starting cuBLASLt", cublasLtCreate);
    device_.cudnn = cudnn::Library::on_device(device_.stream.get(), device_.name);
    add_handlers();
  }

  std::map<std::string, std::string> facts() const override {
    return {{"gpu", device_.name},
            {"cuda", version_text(CUDART_VERSION)},
            {"cudnn", device_.cudnn->title()},
            {"cublaslt", std::to_string(cublasLtGetVersion())}};
  }

  std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                  const Slots& slots) const override {
    return in_range(context.label, find(handlers_, context.op)->compile(device_, context, choice, slots));
  }

  int64_t record_event() override { return timeline_->record_event(); }
  bool query(int64_t event) override { return timeline_->query(event); }
  void synchronize(int64_t event) override { timeline_->synchronize(event); }
  std::unique_ptr<Stopwatch> make_stopwatch(size_t points) override {
    return timeline_->make_stopwatch(points);
  }
  std::unique_ptr<Kernel> capture_graph(const std::function<void()>& work) override {
    return timeline_->capture_graph(work);
  }
  void copy_to_device_async(std::span<const HostCopy> copies, int64_t after) override {
    timeline_->copy_to_device_async(copies, after);
  }
  void fetch(void* host, const void* device, int64_t bytes) override {
    check(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                          device_.stream.get()),
          "copying from the GPU");
  }

  void store(void* device, const void* host, int64_t bytes) override {
    copy(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice);
  }

  Buffer allocate(int64_t bytes) override {
    // An empty buffer still gets an address, so that sub-arrays of it can be formed.
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, size);
    if (status == cudaErrorMemoryAllocation) out_of_memory(bytes);
    check(status, "allocating GPU memory");
    *held_ += bytes;
    Buffer buffer(data, bytes, [held = held_, bytes](void* memory) {
      static_cast<void>(cudaFree(memory));
      *held -= bytes;
    });
    check(cudaMemsetAsync(data, 0, size, device_.stream.get()), "clearing GPU memory");
    return buffer;
  }

  /// Page-locked: the GPU copies from it without the host's help, and may read it in place.
  Buffer allocate_batch(int64_t bytes) override {
    void* data = nullptr;
    check(cudaHostAlloc(&data, static_cast<size_t>(std::max<int64_t>(bytes, 1)), cudaHostAllocDefault),
          "allocating page-locked memory");
    return Buffer(data, bytes, [](void* memory) { static_cast<void>(cudaFreeHost(memory)); });
  }

  DeviceReading read_device() const override {
    return monitor_ == nullptr ? DeviceReading{} : monitor_->read();
  }

  /// What is free now and what its buffers hold.
  int64_t memory_bytes() const override {
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "reading the GPU's free memory");
    return static_cast<int64_t>(free) + *held_;
  }

  void upload(void* device, const float* host, int64_t elements, DType dtype) override {
    const std::vector<std::byte> stored = to_stored({host, static_cast<size_t>(elements)}, dtype);
    copy(device, stored.data(), stored.size(), cudaMemcpyHostToDevice);
  }

  void download(float* host, const void* device, int64_t elements, DType dtype) override {
    std::vector<std::byte> stored(static_cast<size_t>(elements * bytes_per_element(dtype)));
    copy(stored.data(), device, stored.size(), cudaMemcpyDeviceToHost);
    from_stored(stored, dtype, host);
  }

 private:
  /// After everything put on the stream before; returns when it is done.
  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    check(cudaMemcpyAsync(to, from, bytes, kind, device_.stream.get()), "copying");
    check(cudaStreamSynchronize(device_.stream.get()), "waiting for the GPU");
  }

  [[noreturn]] void out_of_memory(int64_t bytes) const {
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "reading the GPU's free memory");
    const auto others = static_cast<int64_t>(total - free) - *held_;
    throw Error(
        ExitCode::out_of_memory,
        fmt::format("out of GPU memory: asked for {}, free {} of {}; this run holds {}, other processes "
                    "and NVIDIA's libraries {}; lower training.micro_batch_size",
                    human_bytes(bytes), human_bytes(static_cast<int64_t>(free)),
                    human_bytes(static_cast<int64_t>(total)), human_bytes(*held_), human_bytes(others)));
  }

  std::unique_ptr<Monitor> monitor_;                              ///< null where there is none
  std::optional<Timeline> timeline_;                              ///< of the stream
  std::shared_ptr<int64_t> held_ = std::make_shared<int64_t>(0);  ///< bytes in buffers, which may outlive it
};

}  // namespace

std::unique_ptr<Backend> make_backend(const BackendRequest& request) {
  if (request.described != nullptr) return make_described_backend(request);
  return std::make_unique<CudaBackend>(request);
}

}  // namespace trainer::cuda
