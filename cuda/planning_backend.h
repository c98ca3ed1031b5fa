// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/handler.h"

namespace trainer::cuda {

/// What a GPU that is there and one that is only described have in common: what they refuse and choose.
class PlanningBackend : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  std::optional<std::string> set_precision(Precision precision) override {
    return cuda::why_not(device_, precision);
  }
  std::optional<std::string> why_not(const OpContext& context) const override {
    return cuda::why_not(handlers_, context);
  }
  Choice select(const OpContext& context, const OpenLayouts& inputs) const override {
    return find(handlers_, context.op)->select(device_, context, inputs);
  }
  Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const override {
    return cuda::select_reorder(context, from, to);
  }
  bool is_async() const override { return true; }

 protected:
  /// Once the device is filled in.
  void add_handlers() {
    add_own_kernels(handlers_);
    add_linear(handlers_, device_);
    add_convolution(handlers_, device_);
  }

  Device device_;
  Handlers handlers_;
};

}  // namespace trainer::cuda
