// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/engine/backend.h"

namespace trainer {

/// When batches are copied to the device: as late as possible, or as early.
enum class Copies { late, early };

/// Another backend's device made asynchronous, like a GPU: enqueued work, including the clearing of memory,
/// is done only when a caller waits. Addresses are those at the time of enqueueing.
class LateDevice final : public Device {
 public:
  LateDevice(Device& inner, bool captures, Copies copies)
      : inner_(inner), captures_(captures), copies_(copies) {}

  Buffer allocate(int64_t bytes) override;
  Buffer allocate_batch(int64_t bytes) override { return inner_.allocate_batch(bytes); }
  std::unique_ptr<Kernel> compile(const OpContext& context, const Choice& choice,
                                  const Slots& slots) const override;
  std::unique_ptr<Kernel> capture_graph(const std::function<void()>& work, const Warn& warn) override;

  int64_t record_event() override { return enqueued_; }
  bool query(int64_t event) override { return done_ >= event; }
  void synchronize(int64_t event) override;
  std::unique_ptr<Stopwatch> make_stopwatch(size_t marks) override;

  void copy_to_host(std::span<std::byte> host, const void* device) override;
  void copy_to_device(void* device, std::span<const std::byte> host) override;
  void copy_to_host_async(std::span<std::byte> host, const void* device) override;
  void copy_to_device_async(std::span<const HostCopy> copies, int64_t after) override;

  /// With more pieces of work than this, the first is done at once.
  void set_longest_queue(size_t longest) { longest_ = longest; }
  int64_t captured_graphs() const { return graphs_; }
  /// After this many graphs it fails to capture another.
  void set_most_graphs(int64_t most) { most_graphs_ = most; }
  /// Number of waits for work that was not done.
  int64_t waits() const { return waits_; }
  /// Copies so far: of the results of a run, and of batches.
  int64_t copies_to_host() const { return copies_to_host_; }
  int64_t copies_to_device() const { return copies_to_device_; }
  /// Duration of each wait.
  void set_wait(std::chrono::milliseconds wait) { wait_ = wait; }

 private:
  using Work = std::function<void()>;
  void enqueue(Work work);

  Device& inner_;
  bool captures_;
  Copies copies_;
  std::vector<Work>* capture_ = nullptr;  ///< target of work while it is captured
  std::deque<Work> queue_;
  size_t longest_ = SIZE_MAX;
  int64_t most_graphs_ = INT64_MAX;
  int64_t enqueued_ = 0, done_ = 0, graphs_ = 0, waits_ = 0;
  int64_t copies_to_host_ = 0, copies_to_device_ = 0;
  std::chrono::milliseconds wait_{0};
};

/// Keeps references to another backend's halves.
struct LateBackend : Backend {
  explicit LateBackend(const Backend& inner, bool captures = false, Copies copies = Copies::late);
  LateDevice& late() const { return static_cast<LateDevice&>(*device); }
  int64_t captured_graphs() const { return late().captured_graphs(); }
};

}  // namespace trainer
