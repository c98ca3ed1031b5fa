// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/base/units.h"
#include "cuda/backend.h"
#include "cuda/cudnn/library.h"
#include "cuda/matmul.h"
#include "cuda/planning_backend.h"

namespace trainer::cuda {
namespace {

/// What the driver, the runtime, cuDNN and cuBLASLt keep for themselves on a GPU, an estimate.
constexpr int64_t kLibraries = int64_t{1} << 30;

class DescribedBackend final : public PlanningBackend {
 public:
  explicit DescribedBackend(const BackendRequest& request) : memory_bytes_(request.described->memory_bytes) {
    device_.name = request.described->name;
    device_.compute_capability = request.described->compute_capability;
    device_.tf32 = request.tf32;
    device_.deterministic = request.deterministic;
    device_.cudnn = cudnn::Library::described(request.described->properties, device_.name);
    add_handlers();
  }

  int64_t memory_bytes() const override { return std::max<int64_t>(0, memory_bytes_ - kLibraries); }

  std::vector<std::string> remarks() const override {
    std::vector<std::string> remarks{
        fmt::format("planned for the description of a GPU: {}", device_.cudnn->title()),
        fmt::format(
            "the workspace of matrix products is an upper bound, {} each: cuBLASLt chooses on the GPU",
            human_bytes(kMostMatmulWorkspace))};
    if (!cudnn::Oracle::knows_compiled_engines()) {
      remarks.emplace_back(
          "there is no libcuda.so.1, nor the CUDA toolkit's stub of it: engines that cuDNN compiles at run "
          "time are left out, and with them perhaps the best; set CUDA_HOME to a toolkit");
    }
    return remarks;
  }

  std::unique_ptr<Kernel> compile(const OpContext&, const Choice&, const Slots&) const override { fail(); }
  Buffer allocate(int64_t) override { fail(); }
  Buffer allocate_batch(int64_t) override { fail(); }
  void upload(void*, const float*, int64_t, DType) override { fail(); }
  void download(float*, const void*, int64_t, DType) override { fail(); }

 private:
  [[noreturn]] static void fail() { throw std::logic_error("nothing runs on a GPU that is only described"); }

  int64_t memory_bytes_;
};

}  // namespace

std::unique_ptr<Backend> make_described_backend(const BackendRequest& request) {
  return std::make_unique<DescribedBackend>(request);
}

}  // namespace trainer::cuda
