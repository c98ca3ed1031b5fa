// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/late_backend.h"

#include <cstring>
#include <utility>

namespace trainer {
namespace {

/// A kernel of the inner backend over slots of its own.
class LateKernel final : public Kernel {
 public:
  using Put = std::function<void(std::function<void()>)>;

  LateKernel(const Backend& inner, const OpContext& context, const Choice& choice, Slots slots, Put put)
      : slots_(std::move(slots)), enqueue_(std::move(put)) {
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
  Put enqueue_;
  std::vector<void*> own_;
  std::unique_ptr<Kernel> kernel_;
};

class Replay final : public Kernel {
 public:
  Replay(std::vector<std::function<void()>> works, LateKernel::Put put)
      : works_(std::move(works)), enqueue_(std::move(put)) {}
  void run() override {
    enqueue_([this] {
      for (const auto& work : works_) work();
    });
  }

 private:
  std::vector<std::function<void()>> works_;
  LateKernel::Put enqueue_;
};

/// Point i + 1 is a second after event i, once both are marked.
class LateStopwatch final : public Stopwatch {
 public:
  LateStopwatch(size_t points, LateKernel::Put put) : marked_(points, false), enqueue_(std::move(put)) {}
  void mark(size_t i) override {
    marked_[i] = false;
    enqueue_([this, i] { marked_[i] = true; });
  }
  double seconds(size_t i) const override { return marked_[i] && marked_[i + 1] ? 1 : -1e9; }

 private:
  std::vector<bool> marked_;
  LateKernel::Put enqueue_;
};

}  // namespace

std::unique_ptr<Kernel> LateBackend::compile(const OpContext& context, const Choice& choice,
                                             const Slots& slots) const {
  auto* self = const_cast<LateBackend*>(this);
  return std::make_unique<LateKernel>(inner_, context, choice, slots,
                                      [self](Work work) { self->enqueue(std::move(work)); });
}

std::unique_ptr<Stopwatch> LateBackend::make_stopwatch(size_t points) {
  return std::make_unique<LateStopwatch>(points, [this](Work work) { enqueue(std::move(work)); });
}

std::unique_ptr<Kernel> LateBackend::capture_graph(const std::function<void()>& work) {
  if (!records_) return nullptr;
  std::vector<Work> works;
  recording_ = &works;
  work();
  recording_ = nullptr;
  ++recordings;
  return std::make_unique<Replay>(std::move(works), [this](Work replay) { enqueue(std::move(replay)); });
}

void LateBackend::enqueue(Work work) {
  if (recording_ != nullptr) {
    recording_->push_back(std::move(work));
    return;
  }
  queue_.push_back(std::move(work));
  ++enqueued_;
  progress(longest);
}

void LateBackend::progress(size_t left) {
  while (queue_.size() > left) {
    queue_.front()();
    queue_.pop_front();
    ++done_;
  }
}

void LateBackend::synchronize(int64_t event) {
  if (done_ < event) ++waits;
  finish(event);
}

void LateBackend::finish(int64_t event) {
  progress(static_cast<size_t>(std::max<int64_t>(0, enqueued_ - std::max(event, done_))));
}

void LateBackend::fetch(void* host, const void* device, int64_t bytes) {
  enqueue([=] { std::memcpy(host, device, static_cast<size_t>(bytes)); });
}

void LateBackend::store(void* device, const void* host, int64_t bytes) {
  finish(enqueued_);
  std::memcpy(device, host, static_cast<size_t>(bytes));
}

/// Late: just before what is put here next. Early: as soon as the event has passed.
void LateBackend::copy_to_device_async(std::span<const HostCopy> copies, int64_t after) {
  if (copies_ == Copies::early) finish(after);
  for (const HostCopy& copy : copies) {
    if (copies_ == Copies::late) {
      fetch(copy.device, copy.host, copy.bytes);
    } else {
      std::memcpy(copy.device, copy.host, static_cast<size_t>(copy.bytes));
    }
  }
}

Buffer LateBackend::allocate(int64_t bytes) {
  Buffer buffer = inner_.allocate(bytes);
  enqueue([data = buffer.data(), bytes] { std::memset(data, 0, static_cast<size_t>(bytes)); });
  return buffer;
}

void LateBackend::upload(void* device, const float* host, int64_t elements, DType dtype) {
  synchronize(enqueued_);
  inner_.upload(device, host, elements, dtype);
}

void LateBackend::download(float* host, const void* device, int64_t elements, DType dtype) {
  synchronize(enqueued_);
  inner_.download(host, device, elements, dtype);
}

}  // namespace trainer
