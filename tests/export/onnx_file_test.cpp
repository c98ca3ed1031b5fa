// SPDX-License-Identifier: Apache-2.0
#include "core/export/onnx_file.h"

#include <fstream>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/import/onnx_file.h"
#include "tests/catch.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

/// Adds two weights of 20 and 4 bytes to an input, and a number that is no weight.
OnnxGraph two_weights() {
  OnnxGraph graph({});
  graph.add_input({"x", onnx::Element::f32, {kAnyBatch, 5}});
  const OnnxGraph::Value y = graph.node("Add", {"x", graph.weight("a.weight", {5})});
  const OnnxGraph::Value z = graph.node("Add", {y, graph.number(0.5)});
  graph.set_output(graph.node("Mul", {z, graph.weight("b", {1})}),
                   {"logits", onnx::Element::f32, {kAnyBatch, 5}});
  return graph;
}

void give_weights(const std::string& name, const ByteSink& sink) {
  const std::vector<float> values = name == "b" ? std::vector<float>{7} : std::vector<float>{1, 2, 3, 4, 5};
  sink(std::as_bytes(std::span(values).first(1)));
  sink(std::as_bytes(std::span(values).subspan(1)));
}

std::string composed(const OnnxGraph& graph, const std::string& data_file) {
  std::string bytes;
  compose_onnx(graph, give_weights, data_file, [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  return bytes;
}

}  // namespace

TEST_CASE("export: the reader of ONNX files finds the weights of a written one") {
  const test::ScratchDirectory scratch;
  const OnnxGraph graph = two_weights();
  const std::string bytes = composed(graph, "");
  CHECK(static_cast<int64_t>(bytes.size()) == onnx_bytes(graph));
  std::ofstream(scratch / "m.onnx", std::ios::binary) << bytes;
  const std::unique_ptr<ForeignWeights> found = open_onnx_file(scratch / "m.onnx");
  REQUIRE(found->tensors().size() == 2);
  CHECK(found->tensors()[0].name == "a.weight");
  CHECK(found->tensors()[0].shape == Shape{5});
  std::string data;
  found->copy(0, [&](std::span<const std::byte> piece) {
    data.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  const std::vector<float> expected = {1, 2, 3, 4, 5};
  CHECK(data == std::string(reinterpret_cast<const char*>(expected.data()), 20));
}

TEST_CASE("export: data in another file begins at multiples of 64 bytes") {
  const OnnxGraph graph = two_weights();
  const std::string model = composed(graph, "m.onnx.data");
  CHECK(model.find("m.onnx.data") != std::string::npos);
  CHECK(model.find(std::string("\x0a\x06offset\x12\x02") + "64") != std::string::npos);
  std::string data;
  compose_onnx_data(graph, give_weights, [&](std::span<const std::byte> piece) {
    data.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  REQUIRE(data.size() == 68);
  const float seven = 7;
  CHECK(data.substr(64) == std::string(reinterpret_cast<const char*>(&seven), sizeof seven));
}

TEST_CASE("export: a weight of another size is a mistake of the program") {
  const auto give_few = [](const std::string&, const ByteSink& sink) { sink(std::vector<std::byte>(3)); };
  CHECK_THROWS_AS(compose_onnx(two_weights(), give_few, "", [](std::span<const std::byte>) {}),
                  std::logic_error);
}

TEST_CASE("export: equal constants are written once, and names differ") {
  OnnxGraph graph({});
  CHECK(graph.number(2) == graph.number(2));
  CHECK(graph.integers({1, 2}) != graph.integers({2, 1}));
  CHECK(graph.initializers().size() == 3);
  CHECK(graph.node("Relu", {"x"}) != graph.node("Relu", {"x"}));
}

}  // namespace trainer
