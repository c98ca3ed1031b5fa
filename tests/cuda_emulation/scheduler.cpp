// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_emulation/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "tests/cuda_emulation/device.h"
#include "tests/cuda_emulation/faults.h"
#include "tests/cuda_emulation/fiber.h"
#include "tests/cuda_emulation/memory.h"

// CUDA's execution model on one thread: blocks run one after another, the threads of a block as fibers that
// change only in barriers and warp operations. CUDA declares the variables below as constants, which they
// are for each fiber.

uint3 trainer_thread_index asm("threadIdx"), trainer_block_index asm("blockIdx");
dim3 trainer_block_size asm("blockDim"), trainer_grid_size asm("gridDim");

namespace trainer::emulation {
namespace {

constexpr int kLanes = 32;

enum class State : uint8_t { ready, at_barrier, in_warp_call, ended };

struct Thread {
  std::unique_ptr<Fiber> fiber;
  uint3 index{};
  int number = 0;
  State state = State::ready;
  bool has_waited = false;  ///< for the kernels before
  uint32_t mask = 0;
  Place place{};
};

/// Lanes of one mask that wait for each other in one warp operation.
struct Meeting {
  WarpCall call;
  uint32_t mask, arrived = 0, left = 0, votes = 0;
  std::array<std::array<std::byte, 8>, kLanes> values{};
  bool complete() const { return arrived == mask; }
};

struct Warp {
  std::vector<std::unique_ptr<Meeting>> meetings;
  uint32_t lanes = 0;
  uint16_t epoch = 0;
};

/// There is one GPU, as there is one threadIdx.
struct Machine {
  Stacks stacks;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<int> queue;  ///< threads that can continue
  Thread* running = nullptr;
  Grid grid;
  int at_barrier = 0;
  uint32_t epoch = 0, launch_epoch = 0, block_epoch = 0;
  uint32_t seed = 0;
  std::mt19937 random;
};

Machine the_machine;  // not a static of a function: its check at each use would take a seventh of the time

Machine& machine() {
  return the_machine;
}

std::string text_of(const Place& place) {
  const char* slash = std::strrchr(place.file, '/');
  return fmt::format("{}:{}", slash == nullptr ? place.file : slash + 1, place.line);
}

void wake(Thread& thread) {
  thread.state = State::ready;
  machine().queue.push_back(thread.number);
}

void run_thread() {
  machine().grid.enter(machine().grid.call);
  if (!has_waited()) report("early", "a thread ends without wait_for_previous_kernels");
  machine().running->state = State::ended;
}

void wait_in(State state, const Place& place) {
  Thread& me = *machine().running;
  me.state = state;
  me.place = place;
  me.fiber->pause();
}

void resume(Thread& thread) {
  Machine& m = machine();
  trainer_thread_index = thread.index;
  m.running = &thread;
  if (thread.fiber == nullptr) thread.fiber = std::make_unique<Fiber>(m.stacks, run_thread);
  thread.fiber->resume();
  m.running = nullptr;
  if (thread.state == State::ended) thread.fiber.reset();
}

void make_threads(unsigned count) {
  Machine& m = machine();
  m.threads.clear();
  m.threads.resize(count);
  m.warps.clear();
  m.warps.resize((count + kLanes - 1) / kLanes);
  m.queue.clear();
  for (unsigned i = 0; i < count; ++i) {
    m.threads[i].number = static_cast<int>(i);
    m.threads[i].index = {i % trainer_block_size.x, i / trainer_block_size.x % trainer_block_size.y,
                          i / (trainer_block_size.x * trainer_block_size.y)};
    m.warps[i / kLanes].lanes |= 1u << i % kLanes;
    m.queue.push_back(static_cast<int>(i));
  }
  if (m.seed == 1) std::reverse(m.queue.begin(), m.queue.end());
  if (m.seed > 1) std::shuffle(m.queue.begin(), m.queue.end(), m.random);
}

/// Every thread that has not ended waits for one that has.
bool all_ended() {
  Machine& m = machine();
  std::map<std::string, int> waiting;
  for (const Thread& thread : m.threads) {
    if (thread.state == State::ended) continue;
    const bool barrier = thread.state == State::at_barrier;
    ++waiting[fmt::format("{} at {}", barrier ? "__syncthreads" : "a warp operation", text_of(thread.place))];
  }
  if (waiting.empty()) return true;
  std::string text = "threads wait for others that have ended or wait elsewhere:";
  for (const auto& [place, count] : waiting) text += fmt::format(" {} in {}", count, place);
  report("deadlock", text);
  return false;
}

bool run_block(unsigned threads) {
  Machine& m = machine();
  reset_shared();
  m.block_epoch = ++m.epoch;
  m.at_barrier = 0;
  make_threads(threads);
  for (size_t next = 0; next < m.queue.size(); ++next) {
    if (m.seed > 1) std::swap(m.queue[next], m.queue[next + m.random() % (m.queue.size() - next)]);
    resume(m.threads[static_cast<size_t>(m.queue[next])]);
  }
  return all_ended();
}

/// The unfinished meeting of these lanes.
Meeting& meeting_of(Warp& warp, WarpCall call, uint32_t mask) {
  for (auto& meeting : warp.meetings) {
    if (meeting->mask == mask && !meeting->complete()) return *meeting;
  }
  warp.meetings.push_back(std::make_unique<Meeting>(Meeting{.call = call, .mask = mask}));
  return *warp.meetings.back();
}

void leave(Warp& warp, Meeting& meeting, int lane) {
  meeting.left |= 1u << lane;
  if (meeting.left == meeting.mask) {
    std::erase_if(warp.meetings, [&](const auto& one) { return one.get() == &meeting; });
  }
}

}  // namespace

void set_schedule(uint32_t seed) {
  machine().seed = seed;
  machine().random.seed(seed);
}

std::string running_thread() {
  if (!in_kernel()) return "";
  const uint3 b = trainer_block_index, t = machine().running->index;
  return fmt::format(" (block {},{},{} thread {},{},{})", b.x, b.y, b.z, t.x, t.y, t.z);
}

bool in_kernel() {
  return machine().running != nullptr;
}

bool has_waited() {
  return machine().running->has_waited;
}

void wait_for_previous_kernels() {
  machine().running->has_waited = true;
}

Moment now() {
  const Machine& m = machine();
  const auto thread = static_cast<uint16_t>(m.running->number);
  const auto warp = static_cast<uint16_t>(thread / kLanes);
  return {m.launch_epoch, m.block_epoch, m.epoch, thread, warp, m.warps[warp].epoch};
}

uint16_t warp_epoch(uint16_t warp) {
  return machine().warps[warp].epoch;
}

bool on_stack(const void* address) {
  const std::byte* stack = machine().running->fiber->stack();
  return static_cast<const std::byte*>(address) >= stack &&
         static_cast<const std::byte*>(address) < stack + kStackBytes;
}

bool in_arguments(const void* address) {
  const auto* begin = static_cast<const std::byte*>(machine().grid.call);
  return static_cast<const std::byte*>(address) >= begin &&
         static_cast<const std::byte*>(address) < begin + machine().grid.call_bytes;
}

int lane() {
  return machine().running->number % kLanes;
}

void barrier(Place place) {
  Machine& m = machine();
  if (++m.at_barrier < static_cast<int>(m.threads.size())) return wait_in(State::at_barrier, place);
  m.at_barrier = 0;
  ++m.epoch;
  for (Warp& warp : m.warps) warp.epoch = 0;
  for (Thread& thread : m.threads) {
    if (&thread == m.running) continue;
    if (thread.place.line != place.line || std::strcmp(thread.place.file, place.file) != 0) {
      report("divergence", fmt::format("threads of one block meet in different __syncthreads: {} and {}",
                                       text_of(thread.place), text_of(place)));
    }
    wake(thread);
  }
}

uint32_t exchange(WarpCall call, uint32_t mask, const void* in, void* out, size_t bytes, int source,
                  bool vote, Place place) {
  Thread& me = *machine().running;
  const int own = me.number % kLanes;
  Warp& warp = machine().warps[static_cast<size_t>(me.number / kLanes)];
  if ((mask >> own & 1) == 0) report("warp", "the mask leaves out the calling lane, " + text_of(place));
  if ((mask & ~warp.lanes) != 0) report("warp", "the mask names lanes that do not exist, " + text_of(place));
  mask = (mask & warp.lanes) | 1u << own;
  Meeting& meeting = meeting_of(warp, call, mask);
  if (meeting.call != call) report("warp", "lanes meet in different warp operations, " + text_of(place));
  meeting.arrived |= 1u << own;
  meeting.votes |= static_cast<uint32_t>(vote) << own;
  if (in != nullptr) std::memcpy(meeting.values[static_cast<size_t>(own)].data(), in, bytes);
  if (meeting.complete()) {
    if (call == WarpCall::sync && mask == warp.lanes) ++warp.epoch;  // shuffles do not order memory
    for (int i = 0; i < kLanes; ++i) {
      if ((mask >> i & 1) != 0 && i != own) wake(machine().threads[static_cast<size_t>(me.number - own + i)]);
    }
  } else {
    me.mask = mask;
    wait_in(State::in_warp_call, place);
  }
  if (out != nullptr) {
    const bool given = source >= 0 && source < kLanes && (mask >> source & 1) != 0;
    if (given) {
      std::memcpy(out, meeting.values[static_cast<size_t>(source)].data(), bytes);
    } else {
      report("warp",
             fmt::format("takes from lane {}, which the mask leaves out, {}", source, text_of(place)));
      std::memset(out, 0xFF, bytes);
    }
  }
  const uint32_t votes = meeting.votes;
  leave(warp, meeting, own);
  return votes;
}

bool is_legal(dim3 blocks, dim3 threads) {
  constexpr size_t kMostThreads = 1024;
  const size_t count = size_t{threads.x} * threads.y * threads.z;
  return count >= 1 && count <= kMostThreads && threads.z <= 64 && blocks.x >= 1 && blocks.y >= 1 &&
         blocks.z >= 1 && blocks.x <= 0x7FFFFFFFu && blocks.y <= 65535 && blocks.z <= 65535;
}

void run_grid(const Grid& grid, dim3 blocks, dim3 threads) {
  Machine& m = machine();
  begin_launch(grid.kernel);
  m.grid = grid;
  trainer_block_size = threads;
  trainer_grid_size = blocks;
  m.launch_epoch = ++m.epoch;
  const size_t count = size_t{blocks.x} * blocks.y * blocks.z;
  for (size_t k = 0; k < count; ++k) {
    const size_t i = m.seed == 0 ? k : count - 1 - k;
    trainer_block_index = {static_cast<unsigned>(i % blocks.x),
                           static_cast<unsigned>(i / blocks.x % blocks.y),
                           static_cast<unsigned>(i / (size_t{blocks.x} * blocks.y))};
    if (!run_block(threads.x * threads.y * threads.z)) break;
  }
  begin_launch(nullptr);
}

}  // namespace trainer::emulation
