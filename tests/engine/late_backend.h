// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/engine/backend.h"

namespace trainer {

/// Another backend that works later, as a GPU does: what is put on it, the clearing of memory included, is
/// done only when somebody waits. Addresses are those of the moment when work was put there.
class LateBackend final : public Backend {
 public:
  /// Batches are copied as late as they may be, or as early.
  enum class Copies { late, early };

  explicit LateBackend(Backend& inner, bool records = false, Copies copies = Copies::late)
      : inner_(inner), records_(records), copies_(copies) {}

  std::string_view name() const override { return "late"; }
  std::optional<std::string> why_not(const OpContext& context) const override {
    return inner_.why_not(context);
  }
  Choice select(const OpContext& context, const OpenLayouts& inputs) const override {
    return inner_.select(context, inputs);
  }
  Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const override {
    return inner_.select_reorder(context, from, to);
  }
  std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                  const Slots& slots) const override;
  int64_t element_bytes(DType dtype) const override { return inner_.element_bytes(dtype); }

  bool is_async() const override { return true; }
  int64_t record_event() override { return enqueued_; }
  bool query(int64_t event) override { return done_ >= event; }
  void synchronize(int64_t event) override;
  std::unique_ptr<Stopwatch> make_stopwatch(size_t points) override;
  std::unique_ptr<Kernel> capture_graph(const std::function<void()>& work) override;
  void fetch(void* host, const void* device, int64_t bytes) override;
  void store(void* device, const void* host, int64_t bytes) override;
  void copy_to_device_async(std::span<const HostCopy> copies, int64_t after) override;

  Buffer allocate(int64_t bytes) override;
  Buffer allocate_batch(int64_t bytes) override { return inner_.allocate_batch(bytes); }
  int64_t memory_bytes() const override { return inner_.memory_bytes(); }
  void upload(void* device, const float* host, int64_t elements, DType dtype) override;
  void download(float* host, const void* device, int64_t elements, DType dtype) override;

  /// Does all but the last `left` pieces of work.
  void progress(size_t left);

  size_t longest = SIZE_MAX;  ///< queue: what is enqueued beyond it has the first of it done at once
  int64_t waits = 0;          ///< for what was not done yet
  int64_t recordings = 0;     ///< kept

 private:
  using Work = std::function<void()>;
  void enqueue(Work work);
  /// Does what was put here up to an event.
  void finish(int64_t event);

  Backend& inner_;
  bool records_;
  Copies copies_;
  std::vector<Work>* recording_ = nullptr;  ///< where work goes instead while it is recorded
  std::deque<Work> queue_;
  int64_t enqueued_ = 0, done_ = 0;
};

}  // namespace trainer
