// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/backend.h"

namespace trainer {

/// What the other backends are compared with: one naive loop per operation, on one thread, every tensor
/// row-major. Floating point tensors are computed and stored as double, i32 and u8 as they are. With `rounds`
/// what an operation writes to a tensor of a low type is rounded to it; without, gradients through casts are
/// exact.
class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(bool rounds = false) : rounds_(rounds) {}
  std::string_view name() const override { return "reference"; }
  std::optional<std::string> why_not(const OpContext& context) const override;
  Choice select(const OpContext& context, const OpenLayouts& inputs) const override;
  Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const override;
  std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                  const Slots& slots) const override;

  int64_t element_bytes(DType dtype) const override;
  Buffer allocate(int64_t bytes) override;
  Buffer allocate_batch(int64_t bytes) override { return allocate(bytes); }
  int64_t memory_bytes() const override { return int64_t{1} << 32; }
  void upload(void* device, const float* host, int64_t elements, DType dtype) override;
  void download(float* host, const void* device, int64_t elements, DType dtype) override;
  std::optional<std::string> set_precision(Precision) override { return std::nullopt; }

 private:
  bool rounds_;
};

}  // namespace trainer
