// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/append_to_cache.h"

#include <fmt/format.h>

#include "core/engine/arena.h"
#include "core/engine/plan.h"
#include "core/graph/ops/binary.h"
#include "core/step/stages.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/ops/harness.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

/// A cache (2, 5, 3) and a step that appends two rows and returns twice the cache's new contents.
Program cached_program() {
  Program program;
  program.entries.emplace_back("step");
  Builder build(program, program.entries[0]);
  const TensorId cache = program.persistent("cache", {{2, 5, 3}, DType::f32}, Role::cache, {});
  const TensorId rows = program.input("rows", {{2, 2, 3}, DType::f32}),
                 first = program.input("first", {{1}, DType::i32});
  const TensorId held = build.emit<AppendToCache>({cache, rows, first});
  build.assign(cache, held);
  program.entries[0].outputs.push_back({"held", build.emit<Binary>({held, held}, Binary::Kind::add)});
  return program;
}

std::vector<float> appended_numbers(int begin) {
  std::vector<float> all(12);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(begin) + static_cast<float>(i);
  return all;
}

}  // namespace

TEST_CASE("append_to_cache: the CPU against the reference") {
  for (const int first : {0, 3, 5}) {  // the last piece reaches beyond the end
    check_program(fmt::format("at {}", first), [&](Sketch& sketch) {
      const TensorId cache = sketch.input("cache", {3, 7, 5}), rows = sketch.input("rows", {3, 4, 5}),
                     place = sketch.integers("first", 1, 9);
      sketch.values["first"][0] = static_cast<float>(first);
      sketch.output("y", sketch.build().emit<AppendToCache>({cache, rows, place}));
      sketch.loss(sketch.parameter("p", {3}));
    });
  }
}

TEST_CASE("append_to_cache: a cache grows in its own memory") {
  const auto cpu = make_cpu_backend(2);
  const Program program = cached_program();
  const Plan plan = make_plan(program, *cpu.planner);
  CHECK(plan.persistent_by_kind.at("cache") == align_up(2 * 5 * 3 * 4));
  for (const PlannedNode& planned : plan.entries[0].nodes)
    CHECK(planned.runs == (planned.node.op->name() != "assign"));
  Session session(program, cpu);
  const auto append = [&](float first, int begin) {
    session.set("first", {first});
    session.set("rows", appended_numbers(begin));
    session.run("step");
  };
  append(0, 100);
  append(2, 200);
  append(4, 300);  // its second row is beyond the end
  const std::vector<double> expected = {100, 101, 102, 103, 104, 105, 200, 201, 202, 203,
                                        204, 205, 300, 301, 302, 106, 107, 108, 109, 110,
                                        111, 206, 207, 208, 209, 210, 211, 306, 307, 308};
  CHECK(session.persistent("cache") == expected);
  CHECK(session.output("step", "held")[12] == 600);
  append(1, 400);  // written again
  CHECK(session.persistent("cache")[3] == 400);
  CHECK(session.persistent("cache")[9] == 203);
}

TEST_CASE("append_to_cache: in mixed precision a cache holds the low type and is not cast") {
  Program program = cached_program();
  run_passes(program, {mixed_precision(DType::bf16), dead_code()});
  CHECK(program.spec(program.find("cache")).dtype == DType::bf16);
  int casts = 0;
  for (const Node& node : program.entries[0].nodes) casts += node.op->name() == "cast" ? 1 : 0;
  CHECK(casts == 2);  // of the rows, and of the output
}

TEST_CASE("append_to_cache: shapes that do not fit are refused") {
  const AppendToCache op;
  const TensorSpec cache{{2, 5, 3}}, first{{1}, DType::i32};
  const auto infer = [&](const std::vector<TensorSpec>& inputs) { return op.infer(inputs); };
  CHECK_NOTHROW(infer({cache, {{2, 5, 3}}, first}));
  CHECK_THROWS_WITH(infer({cache, {{2, 6, 3}}, first}),
                    Catch::Matchers::ContainsSubstring("more than a cache of 5"));
  CHECK_THROWS_WITH(infer({cache, {{1, 2, 3}}, first}), Catch::Matchers::ContainsSubstring("do not go into"));
  CHECK_THROWS(infer({cache, {{2, 2, 3}, DType::bf16}, first}));
  CHECK_THROWS(infer({cache, {{2, 2, 3}}, {{1}, DType::f32}}));
}
