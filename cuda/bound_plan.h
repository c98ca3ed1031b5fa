// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/cudnn/library.h"
#include "cuda/handler.h"

namespace trainer::cuda {

/// The address of one tensor for a plan: the slot's address plus `skipped` bytes.
struct BoundTensor {
  int64_t uid;
  void* const* slot;
  int64_t skipped = 0;
};

/// Runs a plan of cuDNN; addresses are bound again only if they have changed. `skipped` bytes at the
/// workspace's beginning are not cuDNN's.
class BoundPlan {
 public:
  BoundPlan(std::shared_ptr<const cudnn::Plan> plan, std::vector<BoundTensor> tensors, void* const* workspace,
            int64_t skipped)
      : plan_(std::move(plan)), tensors_(std::move(tensors)), workspace_(workspace), skipped_(skipped) {}

  void run() {
    std::vector<std::pair<int64_t, void*>> now;
    now.reserve(tensors_.size());
    for (const BoundTensor& tensor : tensors_)
      now.emplace_back(tensor.uid, static_cast<char*>(*tensor.slot) + tensor.skipped);
    if (!addresses_ || now != bound_) {
      char* workspace = optional_at<char>(workspace_);
      addresses_ = cudnn::addresses(now, workspace == nullptr ? nullptr : workspace + skipped_);
      bound_ = std::move(now);
    }
    plan_->run(*addresses_);
  }

 private:
  std::shared_ptr<const cudnn::Plan> plan_;
  std::vector<BoundTensor> tensors_;
  void* const* workspace_;
  int64_t skipped_;
  std::optional<cudnn::Descriptor> addresses_;
  std::vector<std::pair<int64_t, void*>> bound_;
};

}  // namespace trainer::cuda
