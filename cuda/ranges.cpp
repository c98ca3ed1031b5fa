// SPDX-License-Identifier: Apache-2.0
#include "cuda/ranges.h"

#include <nvtx3/nvToolsExt.h>

#include <utility>

namespace trainer::cuda {
namespace {

class Range final : public Kernel {
 public:
  Range(std::string name, std::unique_ptr<Kernel> kernel)
      : name_(std::move(name)), kernel_(std::move(kernel)) {}

  void run() override {
    struct End {
      ~End() { nvtxRangePop(); }
    };
    nvtxRangePushA(name_.c_str());
    const End end;
    kernel_->run();
  }

 private:
  std::string name_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

std::unique_ptr<Kernel> in_range(std::string name, std::unique_ptr<Kernel> kernel) {
  return std::make_unique<Range>(std::move(name), std::move(kernel));
}

}  // namespace trainer::cuda
