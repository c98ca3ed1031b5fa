// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/group_norm.h"
#include "core/graph/ops/layer_norm.h"
#include "core/graph/ops/matmul.h"
#include "core/graph/ops/softmax.h"
#include "tests/ops/fixture_program.h"

using namespace trainer;

namespace {

constexpr double kFixtureEps = 1e-3;

/// LayerNorm with its residual absent; the fixture names the other inputs.
void check_layer_norm(const Fixture& fixture, const std::string& name, bool rms) {
  FixtureProgram p(fixture, name);
  const TensorId x = p.input("x"), gamma = p.input("gamma"), beta = rms ? kNone : p.input("beta");
  const auto op = std::make_shared<LayerNorm>(kFixtureEps, rms);
  p.output("y", p.build.emit_all(op, {x, gamma, beta, kNone}).front());
  const Node node = p.program.entries[0].nodes.back();
  Backward backward{
      .build = p.build, .node = node, .dy = {p.input("dy")}, .wanted = {true, true, !rms, false}};
  backward.dy.resize(node.outputs.size(), kNone);
  const std::vector<TensorId> gradients = op->gradient(backward);
  p.output("dx", gradients[0]);
  p.output("dgamma", gradients[1]);
  if (!rms) p.output("dbeta", gradients[2]);
  p.check();
}

}  // namespace

TEST_CASE("products of activations compute what PyTorch computes") {
  const Fixture fixture("norms");
  for (const bool transposed : {false, true}) {
    for_each_case(fixture, transposed ? "matmul_transposed" : "matmul", "a", [&](const std::string& name) {
      FixtureProgram p(fixture, name);
      p.operation(std::make_shared<MatMul>(transposed, transposed), {"a", "b"});
      p.check();
    });
  }
}

TEST_CASE("normalisations of rows compute what PyTorch computes") {
  const Fixture fixture("norms");
  for (const bool rms : {false, true}) {
    for_each_case(fixture, rms ? "rms_norm" : "layer_norm", "x",
                  [&](const std::string& name) { check_layer_norm(fixture, name, rms); });
  }
}

TEST_CASE("softmax and its logarithm compute what PyTorch computes") {
  const Fixture fixture("norms");
  for (const bool log : {false, true}) {
    for_each_case(fixture, log ? "log_softmax" : "softmax", "x", [&](const std::string& name) {
      FixtureProgram p(fixture, name);
      p.operation(std::make_shared<Softmax>(log), {"x"});
      p.check();
    });
  }
}

TEST_CASE("normalisations of groups and of instances compute what PyTorch computes") {
  const Fixture fixture("norms");
  for_each_case(fixture, "group_norm", "x", [&](const std::string& name) {
    FixtureProgram p(fixture, name);
    const auto groups = static_cast<int64_t>(fixture.values(name + "/groups")[0]);
    p.operation(std::make_shared<GroupNorm>(groups, kFixtureEps), {"x", "gamma", "beta"});
    p.check();
  });
  for_each_case(fixture, "instance_norm", "x", [&](const std::string& name) {
    FixtureProgram p(fixture, name);
    const int64_t channels = fixture.shape(name + "/x")[1];
    p.operation(std::make_shared<GroupNorm>(channels, kFixtureEps), {"x", "gamma", "beta"});
    p.check();
  });
}
