// SPDX-License-Identifier: Apache-2.0
#include "core/engine/input_feed.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "tests/catch.h"

#include "core/engine/outputs.h"
#include "core/graph/builder.h"
#include "core/graph/ops/binary.h"
#include "cpu/backend.h"
#include "tests/engine/late_backend.h"

using namespace trainer;

TEST_CASE("arrays of one piece travel in one copy only where they lie as on the device") {
  Program program{.tensors = {}, .entries = {Entry("run")}};
  Builder build(program, program.entries[0]);
  const TensorSpec one{{1}, DType::f32};
  const TensorId a = program.input("a", one), b = program.input("b", one);
  const TensorId twice = build.emit<Binary>({b, b}, Binary::Kind::add);
  program.entries[0].outputs.push_back({"sum", build.emit<Binary>({a, twice}, Binary::Kind::add)});
  const auto cpu = make_cpu_backend(1);
  struct Case {
    int64_t a, b;  // places in the batch's memory
    bool in_one_piece;
    int64_t copies;
    bool last_first = false;
  };
  for (const Case& now : {Case{0, 64, true, 1},
                          {0, 64, false, 2},
                          {0, 128, true, 2},
                          {64, 0, true, 2},
                          {0, 64, true, 2, true}}) {
    INFO(now.a << " and " << now.b << (now.in_one_piece ? " in one piece" : ""));
    const LateBackend late(cpu);
    const Plan plan = make_plan(program, *late.planner);
    Executable executable(plan, *late.device);
    InputFeed feed(executable);
    const Buffer batch = late.device->allocate_batch(256);
    std::fill_n(reinterpret_cast<float*>(batch.data()), 64, -1.0f);
    *reinterpret_cast<float*>(batch.data() + now.a) = 7;
    *reinterpret_cast<float*>(batch.data() + now.b) = 2;
    Outputs outputs(executable, 0, 1);
    feed.make_room();
    std::array arrays{InputData{a, batch.data() + now.a}, InputData{b, batch.data() + now.b}};
    if (now.last_first) std::ranges::reverse(arrays);
    feed.give(arrays, now.in_one_piece);
    executable.run(0);
    outputs.ask();
    feed.done();
    CHECK(outputs.take() == std::vector<double>{11});
    CHECK(late.late().copies_to_device() == now.copies);
  }
}
