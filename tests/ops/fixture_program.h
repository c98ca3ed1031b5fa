// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "core/graph/operation.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/ops/fixture.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

namespace trainer {

inline constexpr const char* kFixtureEntry = "compute";

struct Side {
  Backend backend;
  double tolerance;
};

/// The fixtures hold fp32, so that is as near as the reference can come.
inline std::vector<Side> sides() {
  std::vector<Side> all;
  all.push_back({make_reference_backend(), 1e-7});
  all.push_back({make_cpu_backend(2), 5e-6});
  return all;
}

/// A program with tensors of a fixture as inputs, called `case/name` there.
struct FixtureProgram {
  const Fixture& fixture;
  std::string prefix;
  Program program{.tensors = {}, .entries = {Entry(kFixtureEntry)}};
  Builder build{program, program.entries[0]};

  FixtureProgram(const Fixture& f, const std::string& name) : fixture(f), prefix(name + "/") {}

  TensorId input(const std::string& name, DType dtype = DType::f32) {
    return program.input(name, {fixture.shape(prefix + name), dtype});
  }
  void output(const std::string& name, TensorId tensor) {
    program.entries[0].outputs.push_back({name, tensor});
  }

  /// y and the gradient of every input for which the fixture has one. "": an absent input. Inputs that
  /// are declared already stay unchanged.
  void operation(const std::shared_ptr<const Operation>& op, const std::vector<std::string>& names) {
    std::vector<TensorId> inputs;
    for (const std::string& name : names) {
      const TensorId known = program.find(name);
      inputs.push_back(name.empty() || known != kNone ? known : input(name));
    }
    output("y", build.emit_all(op, inputs).front());
    const Node node = program.entries[0].nodes.back();
    Backward backward{.build = build, .node = node, .dy = {input("dy")}, .wanted = {}};
    for (const std::string& name : names) backward.wanted.push_back(fixture.has(prefix + "d" + name));
    backward.dy.resize(node.outputs.size(), kNone);
    const std::vector<TensorId> gradients = op->gradient(backward);
    for (size_t i = 0; i < names.size(); ++i) {
      if (backward.wanted[i]) output("d" + names[i], gradients[i]);
    }
  }

  void check() {
    for (const Side& side : sides()) {
      Session session(program, side.backend);
      for (const Tensor& tensor : program.tensors) {
        if (tensor.role == Role::input) session.set(tensor.name, fixture.values(prefix + tensor.name));
      }
      session.run(kFixtureEntry);
      for (const NamedTensor& named : program.entries[0].outputs) {
        INFO(prefix << named.name << " on " << side.backend.planner->name());
        CHECK(relative_error(session.output(kFixtureEntry, named.name),
                             fixture.doubles(prefix + named.name)) < side.tolerance);
      }
    }
  }
};

/// Calls check(name) for "kind.0", "kind.1", … as long as the fixture has them; at least one.
template <class Check>
void for_each_case(const Fixture& fixture, const std::string& kind, const std::string& probe,
                   const Check& check) {
  int count = 0;
  for (; fixture.has(fmt::format("{}.{}/{}", kind, count, probe)); ++count)
    check(fmt::format("{}.{}", kind, count));
  CHECK(count > 0);
}

}  // namespace trainer
