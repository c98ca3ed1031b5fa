// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/engine/outputs.h"
#include "core/graph/ops/assign.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/unary.h"
#include "cpu/backend.h"
#include "tests/engine/late_backend.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

const TensorSpec kThree{{3}, DType::f32};
using Numbers = std::vector<double>;

/// An entry "run" on two states, s = (1, 2, 3) and t = (10, 20, 30), and an input x = (5, 6, 7).
struct Bench {
  Program program{.tensors = {}, .entries = {Entry("run")}};
  Builder build{program, program.entries[0]};
  TensorId s = program.persistent("s", kThree, Role::state, table({1, 2, 3}));
  TensorId t = program.persistent("t", kThree, Role::state, table({10, 20, 30}));
  TensorId x = program.input("x", kThree);

  static Initial table(std::vector<double> values) {
    return {.kind = Initial::Kind::table, .a = 0, .b = 0, .table = std::move(values)};
  }
  TensorId add(TensorId a, TensorId b) { return build.emit<Binary>({a, b}, Binary::Kind::add); }
  TensorId mul(TensorId a, TensorId b) { return build.emit<Binary>({a, b}, Binary::Kind::mul); }
  TensorId row(TensorId a) { return build.emit<Reshape>({a}, Shape{1, 3}); }
  TensorId flat(TensorId a) { return build.emit<Reshape>({a}, Shape{3}); }
  void output(const std::string& name, TensorId id) { program.entries[0].outputs.push_back({name, id}); }

  /// Runs it on both backends; `check` sees each.
  template <class Check>
  void run(const Check& check) {
    const auto cpu = make_cpu_backend(1);
    const Backend reference = make_reference_backend();
    for (const Backend* backend : {&cpu, &reference}) {
      INFO(backend->planner->name());
      Session session(program, *backend);
      session.set("x", {5, 6, 7});
      session.run("run");
      check(session);
    }
  }
};

int copied_assigns(Session& session) {
  int count = 0;
  for (const PlannedNode& planned : session.executable().plan().entry("run").nodes) {
    count += dynamic_cast<const Assign*>(planned.node.op.get()) != nullptr && planned.runs;
  }
  return count;
}

}  // namespace

TEST_CASE("an assigned value is computed in the state's own memory") {
  Bench bench;
  const TensorId sum = bench.add(bench.s, bench.x);
  bench.build.assign(bench.s, sum);
  bench.run([&](Session& session) {
    CHECK(copied_assigns(session) == 0);
    CHECK(session.executable().address(sum) == session.executable().address(bench.s));
    CHECK(session.persistent("s") == Numbers{6, 8, 10});
    session.run("run");
    CHECK(session.persistent("s") == Numbers{11, 14, 17});
  });
}

TEST_CASE("all that an assigned value is computed from in place lies in the state's memory") {
  Bench bench;
  const auto relu = elementwise::Function(elementwise::Relu{});
  const TensorId sum = bench.add(bench.s, bench.x);
  const TensorId positive = bench.build.emit<Unary>({sum}, relu);
  const TensorId last = bench.add(positive, bench.x);
  bench.build.assign(bench.s, last);
  bench.run([&](Session& session) {
    for (const TensorId id : {sum, positive, last})
      CHECK(session.executable().address(id) == session.executable().address(bench.s));
    CHECK(session.executable().plan().scratch_bytes == 0);
    session.run("run");
    CHECK(session.persistent("s") == Numbers{21, 26, 31});
  });
}

TEST_CASE("what is read again, the old value or what the new one is made of, keeps memory of its own") {
  Bench old, made;
  const TensorId sum = old.add(old.s, old.x);
  const TensorId twice = old.add(sum, old.s);  // reads the old value after the sum is made
  old.build.assign(old.s, twice);
  old.run([&](Session& session) {
    CHECK(session.executable().address(sum) != session.executable().address(old.s));
    CHECK(session.persistent("s") == Numbers{7, 10, 13});
  });
  const TensorId base = made.add(made.s, made.x), next = made.add(base, made.x);
  made.build.assign(made.s, next);
  made.output("both", made.add(base, next));
  made.run([&](Session& session) {
    CHECK(session.executable().address(base) != session.executable().address(made.s));
    CHECK(session.output("run", "both") == Numbers{17, 22, 27});
    CHECK(session.persistent("s") == Numbers{11, 14, 17});
  });
  Bench square;
  const TensorId factor = square.add(square.s, square.x);
  square.build.assign(square.s, square.mul(factor, factor));
  square.run([&](Session& session) { CHECK(session.persistent("s") == Numbers{36, 64, 100}); });
}

TEST_CASE("an assigned value is copied where the old one is still read") {
  Bench bench;
  const TensorId sum = bench.add(bench.s, bench.x);
  bench.output("old", bench.mul(bench.s, bench.x));
  bench.build.assign(bench.s, sum);
  bench.run([&](Session& session) {
    CHECK(copied_assigns(session) == 1);
    CHECK(session.output("run", "old") == Numbers{5, 12, 21});
    CHECK(session.persistent("s") == Numbers{6, 8, 10});
  });
}

TEST_CASE("an assigned value is copied where a view of the old one is still read") {
  Bench bench;
  const TensorId view = bench.row(bench.s);
  const TensorId sum = bench.add(bench.s, bench.x);
  bench.output("old", bench.mul(view, bench.row(bench.x)));
  bench.build.assign(bench.s, sum);
  bench.run([&](Session& session) {
    CHECK(session.output("run", "old") == Numbers{5, 12, 21});
    CHECK(session.persistent("s") == Numbers{6, 8, 10});
  });
}

TEST_CASE("a state is not overwritten by an operation that reads it through a view at other places") {
  Bench bench;
  const TensorSpec square{{3, 3}, DType::f32};
  const TensorId w =
      bench.program.persistent("w", square, Role::parameter, Bench::table({0, 0, 1, 1, 0, 0, 0, 1, 0}));
  const TensorId turned = bench.build.emit<Linear>({bench.row(bench.s), w, kNone});  // (s3, s1, s2)
  bench.build.assign(bench.s, bench.flat(turned));
  bench.run([&](Session& session) { CHECK(session.persistent("s") == Numbers{3, 1, 2}); });
}

TEST_CASE("a value that is also an output keeps its own memory") {
  Bench bench;
  const TensorId sum = bench.add(bench.s, bench.x);
  bench.build.assign(bench.s, sum);
  bench.output("sum", sum);
  bench.run([&](Session& session) {
    CHECK(session.output("run", "sum") == Numbers{6, 8, 10});
    CHECK(session.persistent("s") == Numbers{6, 8, 10});
  });
}

TEST_CASE("one value for two states, a state's value for another, an input for a state") {
  Bench both;
  const TensorId sum = both.add(both.s, both.t);
  both.build.assign(both.s, sum);
  both.build.assign(both.t, sum);
  both.run([&](Session& session) {
    CHECK(session.persistent("s") == Numbers{11, 22, 33});
    CHECK(session.persistent("t") == Numbers{11, 22, 33});
  });
  Bench copy;
  copy.build.assign(copy.t, copy.s);
  copy.build.assign(copy.s, copy.x);
  copy.run([&](Session& session) {
    CHECK(session.persistent("t") == Numbers{1, 2, 3});
    CHECK(session.persistent("s") == Numbers{5, 6, 7});
  });
}

TEST_CASE("a value read again after its assign is what the state holds") {
  Bench bench;
  const TensorId sum = bench.add(bench.s, bench.x);
  bench.build.assign(bench.s, sum);
  bench.output("twice", bench.add(sum, sum));
  bench.run([&](Session& session) {
    CHECK(session.output("run", "twice") == Numbers{12, 16, 20});
    CHECK(session.persistent("s") == Numbers{6, 8, 10});
  });
}

TEST_CASE("memory is taken over by an operation only where nothing reads it later") {
  Bench bench;
  const TensorId product = bench.mul(bench.x, bench.s);  // (5, 12, 21)
  const TensorId square = bench.mul(product, product);   // (25, 144, 441)
  const TensorId view = bench.row(product);
  const TensorId sum = bench.add(view, bench.row(square));  // (30, 156, 462)
  bench.output("all", bench.add(bench.flat(sum), bench.add(product, square)));
  bench.run([&](Session& session) { CHECK(session.output("run", "all") == Numbers{60, 312, 924}); });
}

TEST_CASE("neither inputs nor states are taken over by operations that may write in place") {
  Bench bench;
  const auto relu = elementwise::Function(elementwise::Relu{});
  const TensorId negative = bench.mul(bench.x, bench.s);
  bench.output("a", bench.build.emit<Unary>({bench.x}, relu));
  bench.output("b", bench.build.emit<Unary>({bench.row(bench.t)}, relu));
  bench.output("c", bench.add(negative, negative));
  bench.run([&](Session& session) {
    CHECK(session.persistent("s") == Numbers{1, 2, 3});
    CHECK(session.persistent("t") == Numbers{10, 20, 30});
    session.run("run");
    CHECK(session.output("run", "c") == Numbers{10, 24, 42});
  });
}

TEST_CASE("views of an input follow wherever it is bound") {
  Bench bench;
  bench.output("sum", bench.add(bench.row(bench.x), bench.row(bench.row(bench.x))));
  bench.output("view", bench.row(bench.x));
  bench.run([&](Session& session) {
    CHECK(session.output("run", "sum") == Numbers{10, 12, 14});
    Executable& executable = session.executable();
    Device& device = executable.device();
    const StoredType type = executable.plan().stored_type(bench.x);
    const Buffer other = device.allocate_batch(3 * type.bytes);
    const std::vector<float> values{-1, -2, -3};
    device.copy_to_device(other.data(), to_stored(std::span(values), type));
    executable.bind(bench.x, other.data());
    session.run("run");
    CHECK(session.output("run", "sum") == Numbers{-2, -4, -6});
    CHECK(session.output("run", "view") == Numbers{-1, -2, -3});
  });
}

TEST_CASE("numbers of states and computed ones are read, each kind in one copy, and a list beside them") {
  Program program{.tensors = {}, .entries = {Entry("run")}};
  Builder build(program, program.entries[0]);
  const auto state = [&](const char* name, double value) {
    return program.persistent(name, {{1}, DType::f32}, Role::state, Bench::table({value}));
  };
  const auto output = [&](const char* name, TensorId id) {
    program.entries[0].outputs.push_back({name, id});
  };
  const TensorId a = state("a", 2), b = state("b", 3);
  output("sum", build.emit<Binary>({a, b}, Binary::Kind::add));
  output("b", b);
  output("product", build.emit<Binary>({a, b}, Binary::Kind::mul));
  output("a", a);
  const TensorId five = program.persistent("five", {{5}, DType::i32}, Role::state,
                                           {.kind = Initial::Kind::table, .table = {1, 2, 3, 4, 5}});
  output("list", five);
  const auto cpu = make_cpu_backend(1);
  const LateBackend late(cpu);
  const Plan plan = make_plan(program, *late.planner);
  Executable executable(plan, *late.device);
  initialize(executable, 1);
  Outputs outputs(executable, 0, 2, "list");
  for (int run = 0; run < 3; ++run) {
    executable.run(0);
    outputs.ask();
    const Numbers& values = outputs.take();
    CHECK(values[outputs.index("sum")] == 5);
    CHECK(values[outputs.index("product")] == 6);
    CHECK(values[outputs.index("a")] == 2);
    CHECK(values[outputs.index("b")] == 3);
    const std::vector<int32_t> list(outputs.list().begin(), outputs.list().end());
    CHECK(list == std::vector<int32_t>{1, 2, 3, 4, 5});
  }
  CHECK(late.late().copies_to_host() == 3 * 3);
}

TEST_CASE("unknown names are errors of the program, not crashes") {
  Bench bench;
  bench.build.assign(bench.s, bench.x);
  bench.run([&](Session& session) {
    CHECK_THROWS_AS(session.executable().entry("nowhere"), std::logic_error);
    CHECK_THROWS_AS(Outputs(session.executable(), 0, 1).index("loss"), std::logic_error);
    CHECK_THROWS_AS(session.executable().write(bench.s, std::vector<float>{1, 2}), std::logic_error);
    CHECK(session.executable().tensor("nowhere") == kNone);
  });
}
