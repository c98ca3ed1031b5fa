// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/late_backend.h"

#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace trainer {
namespace {

/// A kernel of the inner backend over slots of its own.
class LateKernel final : public Kernel {
 public:
  using Enqueue = std::function<void(std::function<void()>)>;

  LateKernel(const Device& inner, const OpContext& context, const Choice& choice, Slots slots,
             Enqueue enqueue)
      : slots_(std::move(slots)), enqueue_(std::move(enqueue)) {
    own_.resize(slots_.inputs.size() + slots_.outputs.size() + 1);
    Slots own = slots_;
    size_t next = 0;
    for (auto* list : {&own.inputs, &own.outputs}) {
      for (void* const*& slot : *list) {
        if (slot != nullptr) slot = &own_[next];
        ++next;
      }
    }
    own.workspace = &own_[next];
    kernel_ = inner.compile(context, choice, own);
  }

  void run() override {
    std::vector<void*> now;
    for (const auto* list : {&slots_.inputs, &slots_.outputs}) {
      for (void* const* slot : *list) now.push_back(slot == nullptr ? nullptr : *slot);
    }
    now.push_back(slots_.workspace == nullptr ? nullptr : *slots_.workspace);
    enqueue_([this, now] {
      own_ = now;
      kernel_->run();
    });
  }

 private:
  Slots slots_;
  Enqueue enqueue_;
  std::vector<void*> own_;
  std::unique_ptr<Kernel> kernel_;
};

class Replay final : public Kernel {
 public:
  Replay(std::vector<std::function<void()>> works, LateKernel::Enqueue enqueue)
      : works_(std::move(works)), enqueue_(std::move(enqueue)) {}
  void run() override {
    enqueue_([this] {
      for (const auto& work : works_) work();
    });
  }

 private:
  std::vector<std::function<void()>> works_;
  LateKernel::Enqueue enqueue_;
};

/// Mark i + 1 is a second after mark i. As a GPU's events, they cannot be read before they are reached.
class LateStopwatch final : public Stopwatch {
 public:
  LateStopwatch(size_t marks, LateKernel::Enqueue enqueue)
      : reached_(marks, false), enqueue_(std::move(enqueue)) {}
  void mark(size_t i) override {
    reached_[i] = false;
    enqueue_([this, i] { reached_[i] = true; });
  }
  double seconds(size_t i) const override {
    if (!reached_[i] || !reached_[i + 1])
      throw std::logic_error("a time was read before the device had measured it");
    return 1;
  }

 private:
  std::vector<bool> reached_;
  LateKernel::Enqueue enqueue_;
};

class LatePlanner final : public Planner {
 public:
  explicit LatePlanner(Planner& inner) : inner_(inner) {}
  std::string_view name() const override { return "late"; }
  bool is_async() const override { return true; }
  std::optional<std::string> why_not(const OpContext& context) const override {
    return inner_.why_not(context);
  }
  Choice select(const OpContext& context, const OpenLayouts& inputs) const override {
    return inner_.select(context, inputs);
  }
  Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) const override {
    return inner_.select_reorder(context, from, to);
  }
  int64_t element_bytes(DType dtype) const override { return inner_.element_bytes(dtype); }
  int64_t memory_bytes() const override { return inner_.memory_bytes(); }

 private:
  Planner& inner_;
};

}  // namespace

Buffer LateDevice::allocate(int64_t bytes) {
  Buffer buffer = inner_.allocate(bytes);
  enqueue([data = buffer.data(), bytes] { std::memset(data, 0, static_cast<size_t>(bytes)); });
  return buffer;
}

std::unique_ptr<Kernel> LateDevice::compile(const OpContext& context, const Choice& choice,
                                            const Slots& slots) const {
  auto* self = const_cast<LateDevice*>(this);
  return std::make_unique<LateKernel>(inner_, context, choice, slots,
                                      [self](Work work) { self->enqueue(std::move(work)); });
}

std::unique_ptr<Kernel> LateDevice::capture_graph(const std::function<void()>& work, const Warn& /*warn*/) {
  if (!captures_) return nullptr;
  std::vector<Work> works;
  capture_ = &works;
  work();
  capture_ = nullptr;
  if (graphs_ == most_graphs_) throw Error(ExitCode::internal, "the graph has too many nodes");
  ++graphs_;
  return std::make_unique<Replay>(std::move(works), [this](Work replay) { enqueue(std::move(replay)); });
}

void LateDevice::enqueue(Work work) {
  if (capture_ != nullptr) {
    capture_->push_back(std::move(work));
    return;
  }
  queue_.push_back(std::move(work));
  ++enqueued_;
  while (queue_.size() > longest_) synchronize(done_ + 1);
}

void LateDevice::synchronize(int64_t event) {
  if (done_ < event) {
    ++waits_;
    std::this_thread::sleep_for(wait_);
  }
  for (; done_ < event; ++done_) {
    queue_.front()();
    queue_.pop_front();
  }
}

std::unique_ptr<Stopwatch> LateDevice::make_stopwatch(size_t marks) {
  return std::make_unique<LateStopwatch>(marks, [this](Work work) { enqueue(std::move(work)); });
}

void LateDevice::copy_to_host(std::span<std::byte> host, const void* device) {
  synchronize(enqueued_);
  inner_.copy_to_host(host, device);
}

void LateDevice::copy_to_device(void* device, std::span<const std::byte> host) {
  synchronize(enqueued_);
  inner_.copy_to_device(device, host);
}

void LateDevice::copy_to_host_async(std::span<std::byte> host, const void* device) {
  ++copies_to_host_;
  enqueue([=] { std::memcpy(host.data(), device, host.size()); });
}

/// Late: just before the next work is enqueued. Early: as soon as the event is reached.
void LateDevice::copy_to_device_async(std::span<const HostCopy> copies, int64_t after) {
  copies_to_device_ += static_cast<int64_t>(copies.size());
  if (copies_ == Copies::early) synchronize(after);
  for (const HostCopy& copy : copies) {
    auto work = [copy] { std::memcpy(copy.device, copy.host, static_cast<size_t>(copy.bytes)); };
    if (copies_ == Copies::late) {
      enqueue(work);
    } else {
      work();
    }
  }
}

LateBackend::LateBackend(const Backend& inner, bool captures, Copies copies)
    : Backend{.planner = std::make_unique<LatePlanner>(*inner.planner),
              .device = std::make_unique<LateDevice>(*inner.device, captures, copies)} {}

}  // namespace trainer
