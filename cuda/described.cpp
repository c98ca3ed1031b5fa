// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "core/base/units.h"
#include "cuda/backend.h"
#include "cuda/cudnn/library.h"
#include "cuda/matmul.h"
#include "cuda/planner.h"

namespace trainer::cuda {
namespace {

/// An estimate of the memory that the driver, the runtime, cuDNN and cuBLASLt hold once a GPU is open.
constexpr int64_t kOpened = int64_t{1} << 29;

std::shared_ptr<const Gpu> described_gpu(const BackendRequest& request) {
  auto gpu = std::make_shared<Gpu>();
  gpu->name = request.described->name;
  gpu->compute_capability = request.described->compute_capability;
  gpu->ranks = request.ranks;
  gpu->tf32 = request.tf32;
  gpu->deterministic = request.deterministic;
  gpu->cudnn = cudnn::Library::described(request.described->properties, gpu->name);
  return gpu;
}

class DescribedPlanner final : public GpuPlanner {
 public:
  explicit DescribedPlanner(const BackendRequest& request)
      : GpuPlanner(described_gpu(request), all_handlers()),
        memory_bytes_(request.described->memory_bytes),
        rates_(request.described->rates) {
    if (rates_ && request.tf32) rates_->f32 = rates_->tf32;
  }

  int64_t memory_bytes() const override {
    return std::max<int64_t>(0, memory_bytes_ - kOpened - reserve_of(gpu()));
  }

  /// Each rank has its own.
  int64_t ranks_on_device(int64_t /*ranks*/) const override { return 1; }

  std::optional<DeviceRates> rates() const override { return rates_; }

  std::vector<std::string> remarks() const override {
    std::vector<std::string> remarks{
        fmt::format("planned from the description of a GPU: {}", gpu().cudnn->title()),
        fmt::format(
            "the workspace of matrix products is an upper bound, {} each: cuBLASLt chooses on the GPU",
            human_bytes(kMostMatmulWorkspace))};
    std::ranges::move(GpuPlanner::remarks(), std::back_inserter(remarks));
    if (!cudnn::Oracle::knows_compiled_engines()) {
      remarks.emplace_back(
          "there is no libcuda.so.1, nor the CUDA toolkit's stub of it: engines that cuDNN compiles at run "
          "time are left out, and with them perhaps the best; set CUDA_HOME to a toolkit");
    }
    return remarks;
  }

 private:
  int64_t memory_bytes_;
  std::optional<DeviceRates> rates_;
};

}  // namespace

std::unique_ptr<Planner> make_described_planner(const BackendRequest& request) {
  return std::make_unique<DescribedPlanner>(request);
}

}  // namespace trainer::cuda
