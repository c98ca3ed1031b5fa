// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <algorithm>
#include <set>
#include "tests/catch.h"

#include "tests/cuda_emulation/faults.h"
#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/planted.h"
#include "tests/cuda_emulation/scheduler.h"

using namespace trainer::emulation;

namespace {

/// 256 floats, the first half of them set, gone with the object.
class DeviceFloats {
 public:
  static constexpr int kCount = 256;
  DeviceFloats() : memory_(static_cast<float*>(allocate_device(kCount * sizeof(float)))) {
    std::fill_n(memory_, kCount / 2, 1.0f);
    mark_written(memory_, kCount / 2 * sizeof(float));
  }
  ~DeviceFloats() { free_device(memory_); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;
  float* get() const { return memory_; }

 private:
  float* memory_;
};

}  // namespace

TEST_CASE("the emulation finds every planted bug in any order of threads, and nothing where there is none") {
  REQUIRE(checking());
  for (const uint32_t schedule : {0, 1, 7, 8}) {
    set_schedule(schedule);
    for (const PlantedBug& bug : planted_bugs()) {
      INFO(bug.name << ", schedule " << schedule);
      const DeviceFloats memory;
      bug.run(memory.get(), DeviceFloats::kCount);
      const std::vector<Fault> faults = take_faults();
      std::string found;
      for (const Fault& fault : faults) found += fault.kind + ": " + fault.text + "\n";
      INFO(found);
      CHECK(std::any_of(faults.begin(), faults.end(),
                        [&](const Fault& fault) { return fault.kind == bug.kind; }) == !bug.kind.empty());
      if (bug.kind.empty()) CHECK(found.empty());
      if (bug.names_line) CHECK(found.find("planted.cu:") != std::string::npos);
    }
  }
}

TEST_CASE("a fence reports what an operation may not touch, and what it should have written") {
  REQUIRE(checking());
  set_schedule(0);
  using Use = Window::Use;
  constexpr size_t kTouched = 64 * sizeof(float), kLess = 63 * sizeof(float);
  const DeviceFloats memory;
  auto kinds_with = [&](std::vector<Window> windows) {
    {
      const Fence fence(std::move(windows));
      planted_bugs().back().run(memory.get(), DeviceFloats::kCount);
      fence.expect_written();
    }
    std::set<std::string> kinds;
    for (const Fault& fault : take_faults()) kinds.insert(fault.kind);
    return kinds;
  };
  using Kinds = std::set<std::string>;
  CHECK(kinds_with({{memory.get(), kTouched, Use::update}}) == Kinds{});
  CHECK(kinds_with({{memory.get(), kLess, Use::update}}) == Kinds{"bounds"});
  CHECK(kinds_with({{memory.get(), kTouched, Use::read}}) == Kinds{"bounds"});
  CHECK(kinds_with({{memory.get(), kTouched, Use::update}, {memory.get() + 100, 4, Use::write}}) ==
        Kinds{"output"});
  CHECK(kinds_with({{memory.get(), kTouched, Use::update}, {memory.get() + 100, 4, Use::workspace}}) ==
        Kinds{});
  CHECK(kinds_with({{memory.get(), kTouched, Use::workspace}}) == Kinds{"uninitialised"});
}
