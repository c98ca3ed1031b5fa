// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/handler.h"

namespace trainer::cuda {

/// Of a GPU's memory, in bytes, what no plan may use: kernels that CUDA loads at their first launch, CUDA
/// graphs and, for several ranks, NCCL's buffers are allocated after a plan is made. Estimates.
inline int64_t reserve_of(const Gpu& gpu) {
  constexpr int64_t kLoadedLater = int64_t{1} << 29, kNccl = int64_t{1} << 29;
  return kLoadedLater + (gpu.ranks == 1 ? 0 : kNccl);
}

/// The refusals and choices of a GPU, real or described.
class GpuPlanner : public Planner {
 public:
  GpuPlanner(std::shared_ptr<const Gpu> gpu, std::shared_ptr<const Handlers> handlers)
      : gpu_(std::move(gpu)), handlers_(std::move(handlers)) {}

  std::string_view name() const override { return "cuda"; }
  bool is_async() const override { return true; }
  int64_t workspace_alignment() const override { return kWorkspaceAlignment; }
  std::optional<std::string> set_precision(Precision precision) override {
    return cuda::why_not(*gpu_, precision);
  }
  std::optional<std::string> why_not(const OpContext& context) const override {
    const auto handler = handlers_->find(typeid(context.op));
    if (handler == handlers_->end()) return "this version has no GPU kernel for it; write device.type=cpu";
    return handler->second.why_not ? handler->second.why_not(*gpu_, context) : std::nullopt;
  }
  Choice select(const OpContext& context, const OpenLayouts& inputs) const override {
    return handlers_->at(typeid(context.op)).select(*gpu_, context, inputs);
  }
  std::optional<int64_t> untimed_workspace(const OpContext& context) const override {
    const auto handler = handlers_->find(typeid(context.op));
    if (handler == handlers_->end() || !handler->second.untimed_workspace) return std::nullopt;
    return handler->second.untimed_workspace(*gpu_, context);
  }
  std::vector<std::string> remarks() const override { return {gpu_->remarks->begin(), gpu_->remarks->end()}; }
  Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const override {
    return cuda::select_reorder(context, from, to);
  }

 protected:
  const Gpu& gpu() const { return *gpu_; }

 private:
  std::shared_ptr<const Gpu> gpu_;
  std::shared_ptr<const Handlers> handlers_;
};

}  // namespace trainer::cuda
