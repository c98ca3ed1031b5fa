// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_emulation/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>
#include <utility>

#include "tests/cuda_emulation/device.h"
#include "tests/cuda_emulation/faults.h"
#include "tests/cuda_emulation/scheduler.h"

extern "C" __attribute__((visibility("hidden"))) char __ehdr_start, _end;  // set by the linker

namespace trainer::emulation {
namespace {

constexpr size_t kAlignment = 256;
/// Before and after an allocation, so that an access beside it does not hit the next one.
constexpr size_t kMargin = 4096;
/// The shared memory that a block gets without a request for more.
constexpr size_t kSharedBytes = size_t{48} << 10;
constexpr uint16_t kSeveral = 0xFFFF;

/// The last writer and reader of a byte. For several readers since a barrier only the fact that there were
/// several is kept, so some races with reads go undetected.
struct Cell {
  uint32_t write_epoch, read_epoch;
  uint16_t writer, writers_warp_epoch, reader, readers_warp, readers_warp_epoch;
  bool belongs, written, write_atomic, read_atomic;
  const void *write_pc, *read_pc;
};

/// A fence and then an atomic access order a block's writes before a barrier, and the thread's before the
/// fence. They come before all accesses of a thread that later accesses the same atomic and then has a fence:
/// for that thread at once, for its block after the next barrier. (CUDA orders more: accesses that others had
/// ordered before.)
struct Release {
  uint32_t block, epoch;  ///< of the writes: from the block's beginning, before the fence's epoch
  uint16_t thread;
};
struct Acquired {
  Release writes;
  uint32_t epoch;
  uint16_t thread;
};
struct Order {
  uint32_t launch = 0, block = 0;
  std::map<const void*, std::vector<Release>> released;  ///< by atomic, in this launch
  std::map<uint16_t, uint32_t> fences;                   ///< epoch by thread, in this block
  std::map<uint16_t, std::vector<Release>> seen;         ///< by thread, until its next fence
  std::map<uint32_t, std::vector<Acquired>> acquired;    ///< by the block that wrote

  /// Forgets the accesses of another launch or block.
  void begin(const Moment& me) {
    if (launch != me.launch) released.clear();
    if (block != me.block) fences.clear(), seen.clear(), acquired.clear();
    launch = me.launch, block = me.block;
  }
};

struct Region {
  std::byte* begin;
  size_t bytes;
  std::vector<Cell> cells;
  bool contains(const void* address) const {
    return static_cast<const std::byte*>(address) >= begin &&
           static_cast<const std::byte*>(address) < begin + bytes;
  }
};

struct Memory {
  std::map<const std::byte*, Region> regions;
  Region* last = nullptr;
  std::map<const void*, std::byte*> shared_variables;
  Region shared{nullptr, kSharedBytes, {}};
  size_t shared_used = 0;
  std::deque<std::vector<std::byte>> shared_beyond;  ///< addresses that no GPU returns
  std::vector<Window> windows;                       ///< of the fence, by address
  std::vector<Region*> fenced;                       ///< where they are
  bool checking = false;
  Order order;
  alignas(kAlignment) std::byte shared_bytes[kSharedBytes];
};

Memory& memory() {
  static Memory only;  // here and not at namespace scope: __tsan_init comes before everything else
  return only;
}

Region* region_of(const void* address) {
  Memory& m = memory();
  if (m.last != nullptr && m.last->contains(address)) return m.last;
  auto after = m.regions.upper_bound(static_cast<const std::byte*>(address));
  if (after == m.regions.begin()) return nullptr;
  Region& region = std::prev(after)->second;
  if (!region.contains(address)) return nullptr;
  return m.last = &region;
}

const char* word(bool write) {
  return write ? "write" : "read";
}

/// Whether the accesses of a thread of another block in that epoch are ordered before those of the running
/// thread.
bool is_acquired(const Moment& me, uint32_t epoch, uint16_t thread) {
  const Order& order = memory().order;
  if (order.block != me.block) return false;
  auto after = order.acquired.upper_bound(epoch);
  if (after == order.acquired.begin()) return false;
  return std::ranges::any_of(std::prev(after)->second, [&](const Acquired& one) {
    const bool written =
        epoch < one.writes.epoch || (epoch == one.writes.epoch && thread == one.writes.thread);
    return written && (one.epoch < me.epoch || one.thread == me.thread);
  });
}

/// Whether an earlier access to the byte is not ordered before one of the running thread.
bool unordered(const Moment& me, uint32_t epoch, uint16_t thread, uint16_t warp, uint16_t others_warp_epoch) {
  if (epoch < me.launch) return false;
  if (epoch < me.block) return !is_acquired(me, epoch, thread);  // another block of this launch
  if (epoch != me.epoch || thread == me.thread) return false;
  return warp != me.warp || others_warp_epoch == warp_epoch(me.warp);
}

struct Access {
  const void* address;
  size_t bytes;
  bool write, atomic;
  const void* pc;
};

void check_races(const Access& a, const Moment& me, const Cell& cell) {
  const auto writers_warp = static_cast<uint16_t>(cell.writer / 32);
  if (!(a.atomic && cell.write_atomic) &&
      unordered(me, cell.write_epoch, cell.writer, writers_warp, cell.writers_warp_epoch)) {
    const char* of = cell.write_epoch < me.block ? " of another block" : "";
    report("race",
           fmt::format("{} races with the write of thread {}{} at {},", word(a.write), cell.writer, of,
                       source_line(cell.write_pc)),
           a.pc);
  }
  if (a.write && !(a.atomic && cell.read_atomic) &&
      unordered(me, cell.read_epoch, cell.reader, cell.readers_warp, cell.readers_warp_epoch)) {
    report("race", fmt::format("write races with the read at {},", source_line(cell.read_pc)), a.pc);
  }
}

void note(const Access& a, const Moment& me, Cell& cell) {
  if (!a.write || a.atomic) {
    const bool shared = cell.read_epoch == me.epoch;
    if (shared && cell.readers_warp != me.warp) {
      cell.reader = cell.readers_warp = kSeveral;
    } else if (shared && cell.readers_warp_epoch == me.warp_epoch && cell.reader != me.thread) {
      cell.reader = kSeveral;
    } else {
      cell.reader = me.thread, cell.readers_warp = me.warp;
    }
    cell.read_epoch = me.epoch, cell.readers_warp_epoch = me.warp_epoch;
    cell.read_atomic = a.atomic, cell.read_pc = a.pc;
  }
  if (!a.write) return;
  cell.write_epoch = me.epoch, cell.writer = me.thread, cell.writers_warp_epoch = me.warp_epoch;
  cell.write_atomic = a.atomic, cell.written = true, cell.write_pc = a.pc;
}

void report_bounds(const Access& a, const char* where) {
  report("bounds", fmt::format("{} of {} bytes {}", word(a.write), a.bytes, where), a.pc);
}

/// Reads of the program's own constants.
bool is_constant(const Access& a) {
  const auto* address = static_cast<const char*>(a.address);
  return !a.write && address >= &__ehdr_start && address < &_end;
}

/// Whether the fence allows it; memory in none of its allocations is ignored.
void check_window(const Access& a, const Region& region) {
  const Memory& m = memory();
  if (std::find(m.fenced.begin(), m.fenced.end(), &region) == m.fenced.end()) return;
  const auto* begin = static_cast<const std::byte*>(a.address);
  bool inside = false, writable = false;
  for (const Window& window : m.windows) {
    const auto* first = static_cast<const std::byte*>(window.begin);
    if (begin < first || begin + a.bytes > first + window.bytes) continue;
    inside = true;
    writable = writable || window.use != Window::Use::read;
  }
  if (!inside) {
    report_bounds(a, "outside the operation's tensors");
  } else if (a.write && !writable) {
    report("bounds", "write to an input", a.pc);
  }
}

/// While a check runs, its own accesses are none of the kernel's: of a function of the standard library in
/// many objects the linker may take the one that was compiled for a kernel.
thread_local bool is_checking_access = false;

class AccessCheck {
 public:
  AccessCheck() : is_first(!std::exchange(is_checking_access, true)) {}
  ~AccessCheck() {
    if (is_first) is_checking_access = false;
  }
  AccessCheck(const AccessCheck&) = delete;
  AccessCheck& operator=(const AccessCheck&) = delete;

  const bool is_first;
};

void on_access(const Access& a) {
  const AccessCheck check;
  if (!check.is_first) return;
  if (!in_kernel() || on_stack(a.address) || (!a.write && in_arguments(a.address))) return;
  Memory& m = memory();
  Region* region = m.shared.contains(a.address) ? &m.shared : region_of(a.address);
  if (region == nullptr) return is_constant(a) ? void() : report_bounds(a, "outside every device buffer");
  const auto first = static_cast<size_t>(static_cast<const std::byte*>(a.address) - region->begin);
  if (first + a.bytes > region->bytes) return report_bounds(a, "across the end of a buffer");
  if (region != &m.shared && !has_waited())
    report("early", "access to memory before wait_for_previous_kernels", a.pc);
  check_window(a, *region);
  const Moment me = now();
  for (size_t i = first; i < first + a.bytes; ++i) {
    Cell& cell = region->cells[i];
    if (!cell.belongs) return report_bounds(a, "outside every shared variable");
    if ((!a.write || a.atomic) && !cell.written) {
      report("uninitialised", "read of memory that nobody has written", a.pc);
    }
    check_races(a, me, cell);
    note(a, me, cell);
  }
}

void check_alignment(const void* address, size_t bytes, const void* pc) {
  const AccessCheck check;
  if (check.is_first && in_kernel() && reinterpret_cast<uintptr_t>(address) % bytes != 0) {
    report("alignment", fmt::format("access to {} bytes that begin at no multiple of it", bytes), pc);
  }
}

}  // namespace

bool checking() {
  return memory().checking;
}

void* allocate_device(size_t bytes) {
  const size_t margin = checking() ? kMargin : 0;
  void* whole = nullptr;
  // The exact size, so that AddressSanitizer's own margin begins right after it.
  if (posix_memalign(&whole, kAlignment, bytes + 2 * margin) != 0) return nullptr;
  auto* begin = static_cast<std::byte*>(whole) + margin;
  std::memset(begin, 0xFF, bytes);
  Region& region = memory().regions[begin] = {begin, bytes, {}};
  if (checking()) region.cells.assign(bytes, Cell{.belongs = true});
  return begin;
}

bool free_device(void* address) {
  if (address == nullptr) return true;
  if (memory().regions.erase(static_cast<std::byte*>(address)) == 0) return false;
  memory().last = nullptr;
  std::free(static_cast<std::byte*>(address) - (checking() ? kMargin : 0));
  return true;
}

bool is_allocated(const void* address, size_t bytes) {
  const Region* region = region_of(address);
  return region != nullptr && static_cast<const std::byte*>(address) + bytes <= region->begin + region->bytes;
}

size_t allocated_bytes(const void* address) {
  const auto found = memory().regions.find(static_cast<const std::byte*>(address));
  return found == memory().regions.end() ? 0 : found->second.bytes;
}

void mark_written(const void* address, size_t bytes) {
  if (!checking()) return;
  Region* region = region_of(address);
  if (region == nullptr) return;
  const auto first = static_cast<size_t>(static_cast<const std::byte*>(address) - region->begin);
  if (first + bytes > region->bytes) return report("bounds", "a copy reaches across the end of a buffer");
  for (size_t i = first; i < first + bytes; ++i) region->cells[i].written = true;
}

void reset_shared() {
  Memory& m = memory();
  m.shared.begin = m.shared_bytes;
  if (checking()) {
    m.shared.cells.resize(kSharedBytes);
    std::fill_n(m.shared.cells.begin(), m.shared_used, Cell{});
  }
  m.shared_used = 0;
  m.shared_variables.clear();
  m.shared_beyond.clear();
}

void* shared_variable(const void* key, size_t bytes) {
  Memory& m = memory();
  const auto [variable, is_new] = m.shared_variables.try_emplace(key);
  if (!is_new) return variable->second;
  constexpr size_t kGap = 128;
  const size_t begin = (m.shared_used + 2 * kGap - 1) / kGap * kGap;
  if (begin + bytes > kSharedBytes) {
    report("shared", "a kernel has more than 48 KiB of shared variables");
    m.shared_beyond.emplace_back(bytes, std::byte{0xFF});
    return variable->second = m.shared_beyond.back().data();
  }
  m.shared_used = begin + bytes;
  std::byte* place = m.shared_bytes + begin;
  std::memset(place, 0xFF, bytes);  // NaN in every floating type
  if (checking()) {
    for (size_t i = begin; i < begin + bytes; ++i) m.shared.cells[i].belongs = true;
  }
  return variable->second = place;
}

void atomic_access(const void* address, size_t bytes) {
  const void* pc = __builtin_return_address(0);
  check_alignment(address, bytes, pc);
  if (!checking()) return;
  on_access({address, bytes, true, true, pc});
  const Moment me = now();
  Order& order = memory().order;
  order.begin(me);
  std::vector<Release>& released = order.released[address];
  order.seen[me.thread] = released;
  if (const auto fence = order.fences.find(me.thread); fence != order.fences.end())
    released.push_back({me.block, fence->second, me.thread});
}

void memory_fence() {
  if (!checking()) return;
  const Moment me = now();
  Order& order = memory().order;
  order.begin(me);
  order.fences[me.thread] = me.epoch;
  for (const Release& release : order.seen[me.thread]) {
    if (release.block != me.block) order.acquired[release.block].push_back({release, me.epoch, me.thread});
  }
  order.seen[me.thread].clear();
}

Fence::Fence(std::vector<Window> windows) : windows_(std::move(windows)) {
  Memory& m = memory();
  for (const Window& window : windows_) {
    Region* region = region_of(window.begin);
    if (region == nullptr) throw std::logic_error("a tensor lies outside the device's memory");
    if (std::find(m.fenced.begin(), m.fenced.end(), region) == m.fenced.end()) m.fenced.push_back(region);
  }
  m.windows = windows_;
  if (!checking()) return;
  for (const Window& window : windows_) {
    if (window.use != Window::Use::write && window.use != Window::Use::workspace) continue;
    Region* region = region_of(window.begin);
    const auto first = static_cast<size_t>(static_cast<std::byte*>(window.begin) - region->begin);
    for (size_t i = first; i < first + window.bytes; ++i) region->cells[i].written = false;
  }
}

Fence::~Fence() {
  Memory& m = memory();
  m.windows.clear();
  m.fenced.clear();
}

void Fence::expect_written() const {
  if (!checking()) return;
  for (const Window& window : windows_) {
    if (window.use != Window::Use::write) continue;
    const Region* region = region_of(window.begin);
    const auto first = static_cast<size_t>(static_cast<std::byte*>(window.begin) - region->begin);
    size_t missing = 0;
    for (size_t i = first; i < first + window.bytes; ++i) missing += !region->cells[i].written;
    if (missing > 0) {
      report("output", fmt::format("{} of {} bytes of an output were not written", missing, window.bytes));
    }
  }
}

}  // namespace trainer::emulation

// Functions that g++ calls in code compiled with -fsanitize=thread; ThreadSanitizer's own library is not
// linked.
#define TRAINER_ACCESS(name, bytes, is_write)                                                      \
  void __tsan_##name##bytes(void* address) {                                                       \
    const void* pc = __builtin_return_address(0);                                                  \
    trainer::emulation::check_alignment(address, bytes, pc);                                       \
    trainer::emulation::on_access({address, bytes, is_write, false, pc});                          \
  }                                                                                                \
  void __tsan_unaligned_##name##bytes(void* address) {                                             \
    trainer::emulation::on_access({address, bytes, is_write, false, __builtin_return_address(0)}); \
  }
#define TRAINER_ACCESSES(bytes) TRAINER_ACCESS(read, bytes, false) TRAINER_ACCESS(write, bytes, true)

extern "C" {
TRAINER_ACCESSES(1)
TRAINER_ACCESSES(2)
TRAINER_ACCESSES(4)
TRAINER_ACCESSES(8)
TRAINER_ACCESSES(16)
void __tsan_read_range(void* address, size_t bytes) {
  trainer::emulation::on_access({address, bytes, false, false, __builtin_return_address(0)});
}
void __tsan_write_range(void* address, size_t bytes) {
  trainer::emulation::on_access({address, bytes, true, false, __builtin_return_address(0)});
}
void __tsan_init() {
  trainer::emulation::memory().checking = true;
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
}
