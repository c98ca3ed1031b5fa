// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/export/export_program.h"
#include "core/export/forms.h"
#include "core/layers/table.h"
#include "core/recipe/assemble.h"
#include "tests/catch.h"

namespace trainer {
namespace {

constexpr const char* kImages = R"(version: 1
data: {format: synthetic}
model: {input: [8, 4, 4], layers: [{conv2d: {name: before, out_channels: 8, kernel_size: 1}}, )";
constexpr const char* kTokens = R"(version: 1
data: {format: text, train: none.txt, val: null}
model: {input: [24], input_kind: tokens, layers: [{embedding: {name: before, vocab_size: 64, features: 24}}, )";
constexpr const char* kIds = R"(version: 1
data: {format: text, train: none.txt, val: null}
model: {input: [4], input_kind: tokens, layers: [)";

/// Of keys for which 4 does not do.
const std::map<std::string, const char*> kValues = {{"shape", "[-1]"}, {"p", "0.5"}, {"max_positions", "24"}};

/// A value for each key that the layer requires, so that most layers accept it.
std::string required_keys(const Registered<Layer>& row) {
  Fields fields;
  row.make()->declare(fields);
  std::string text;
  for (const Field& field : fields.list()) {
    const auto special = kValues.find(field.name);
    const char* const value = special == kValues.end() ? "4" : special->second;
    if (field.is_required) text += fmt::format("{}: {}, ", field.name, value);
  }
  return text;
}

Program prediction(const std::string& recipe, int64_t samples) {
  const RunSpec spec = Recipe::parse(recipe, "test.yaml", {});
  return forward_program(spec.with_micro_batch(samples), {.purpose = Purpose::predict});
}

/// The program of a network that ends in the layer; nothing if it takes none of these inputs.
std::optional<Program> program_with(const Registered<Layer>& row) {
  for (const char* before : {kImages, kTokens, kIds}) {
    for (const char* inputs : {"", "inputs: [before, before]", "inputs: [sequence, before]"}) {
      const bool has_sequence = std::string_view(inputs).find("sequence") != std::string_view::npos;
      const std::string text = fmt::format("{}{}{{{}: {{{}{}}}}}]}}\n", before,
                                           has_sequence ? "{to_tokens: {name: sequence}}, " : "", row.name,
                                           required_keys(row), inputs);
      try {
        const RunSpec spec = Recipe::parse(text, "test.yaml", {});
        Program program;
        Entry entry(entry_name::kPredict);
        Builder build(program, entry);
        const Network& network = spec.recipe().model;
        const std::vector<TensorId> x = network.declare_inputs(program, 2);
        const LayerContext context{.build = build, .name = "", .seed = 1};
        entry.outputs = {{output_name::kLogits, network.build(context, x).back()}};
        program.entries.push_back(std::move(entry));
        return program;
      } catch (const Error&) {
      }
    }
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("export: the operations of every layer have an ONNX form") {
  for (const Registered<Layer>& row : layers()) {
    if (row.name == "noise") continue;  // which predict does not add
    INFO(row.name);
    const std::optional<Program> program = program_with(row);
    REQUIRE(program);
    for (const Node& node : program->entries[0].nodes) {
      INFO(node.op->name());
      CHECK(onnx_form(*node.op) != nullptr);
    }
    for (const int64_t opset : {17, 23}) {
      const ExportRequest request{.format = {.opset = opset},
                                  .layer_of = [](const Origin&) { return "layer"; }};
      const OnnxGraph graph = export_program(*program, nullptr, request).graph;
      for (const OnnxInitializer& each : graph.initializers()) {
        INFO(each.tensor.name);
        CHECK(std::ranges::any_of(graph.nodes(), [&](const OnnxNode& node) {
          return std::ranges::find(node.inputs, each.tensor.name) != node.inputs.end();
        }));
      }
    }
  }
}

TEST_CASE("export: rows of the table are sorted by operation, each once") {
  const std::span<const OnnxRow> rows = onnx_rows();
  for (size_t i = 1; i < rows.size(); ++i) CHECK(rows[i - 1].operation < rows[i].operation);
}

TEST_CASE("export: dimensions of the batch are told from others") {
  const std::string text = std::string(kTokens) + "{flatten: {}}, {linear: {out_features: 2}}]}\n";
  const Program two = prediction(text, 2), three = prediction(text, 3);
  const ExportRequest request{.format = {}, .layer_of = [](const Origin& origin) { return origin.path; }};
  const OnnxGraph any = export_program(two, &three, request).graph;
  CHECK(any.inputs().at(0).shape == Shape{kAnyBatch, 24});
  CHECK(any.output().shape == Shape{kAnyBatch, 2});
  const OnnxGraph fixed = export_program(two, nullptr, request).graph;
  CHECK(fixed.output().shape == Shape{2, 2});
  CHECK(fixed.nodes().back().name == "model.layers[2].linear/Gemm");
}

TEST_CASE("export: the mask of causal attention takes no room for each pair of tokens, and is made once") {
  const std::string layer =
      "{linear: {out_features: 72}}, {attention: {heads: 3, causal: true, sliding_window: 7}}";
  const std::string text = fmt::format("{}{}, {}]}}\n", kTokens, layer, layer);
  const ExportRequest request{.format = {}, .layer_of = [](const Origin& origin) { return origin.path; }};
  const OnnxGraph graph = export_program(prediction(text, 2), nullptr, request).graph;
  for (const OnnxInitializer& each : graph.initializers()) {
    if (!each.is_weight()) CHECK(each.bytes.size() <= 24 * sizeof(int64_t));
  }
  CHECK(std::ranges::count(graph.nodes(), "Where", &OnnxNode::type) == 1);
}

TEST_CASE("export: a weight with the output's name is refused") {
  const ExportRequest request{.format = {}, .layer_of = [](const Origin&) { return ""; }};
  const std::string text = std::string(kTokens) + "{class_token: {name: logits}}]}\n";
  CHECK_THROWS_WITH(export_program(prediction(text, 2), nullptr, request),
                    Catch::Matchers::ContainsSubstring("give the layer 'logits' another name"));
}

namespace {

constexpr const char* kNormalized = R"(version: 1
data: {format: synthetic}
model:
  input: [2, 4, 4]
  layers:
    - conv2d: {name: first, out_channels: 8, kernel_size: 1, bias: false}
    - batch_norm: {name: norm}
    - relu
    - conv2d: {name: second, out_channels: 4, kernel_size: 1}
    - relu
)";

std::map<std::string, int64_t> types_in(const OnnxGraph& graph) {
  std::map<std::string, int64_t> types;
  for (const OnnxNode& node : graph.nodes()) ++types[node.domain + ":" + node.type];
  return types;
}

/// As little-endian numbers.
std::vector<float> floats_of(const ExportedProgram& exported, const std::string& name,
                             const PreparedWeights::Read& read) {
  std::vector<float> values;
  exported.weights.copy(name, read, [&](std::span<const std::byte> piece) {
    const auto* begin = reinterpret_cast<const float*>(piece.data());
    values.insert(values.end(), begin, begin + piece.size() / sizeof(float));
  });
  return values;
}

}  // namespace

TEST_CASE("export: products in 8 bits keep the names of their weights, and folded ones take them") {
  Int8Network network{.activations = {}, .method = "min_max", .file = "f"};
  network.inputs["first.weight"] = {.low = -1, .high = 1};
  network.inputs["second.weight"] = {.low = 0, .high = 2};
  const RunSpec spec = Recipe::parse(kNormalized, "test.yaml", {});
  const auto exported = [&](OnnxDialect dialect) {
    const ExportRequest request{.format = {.dialect = dialect, .weights = network.weights},
                                .layer_of = [](const Origin&) { return ""; }};
    const Program program =
        int8_program(spec.with_micro_batch(2), std::make_shared<const Int8Network>(network));
    return export_program(program, nullptr, request);
  };
  const ExportedProgram qdq = exported(OnnxDialect::qdq);
  CHECK(types_in(qdq.graph) ==
        std::map<std::string, int64_t>{
            {":QuantizeLinear", 2}, {":DequantizeLinear", 4}, {":Conv", 2}, {":Relu", 2}});
  std::map<std::string, onnx::Element> weights;
  for (const OnnxInitializer& each : qdq.graph.initializers()) {
    if (each.is_weight()) weights[each.tensor.name] = each.tensor.element;
  }
  using onnx::Element;
  CHECK(weights == std::map<std::string, Element>{{"first.weight", Element::i8},
                                                  {"first.weight_scale", Element::f32},
                                                  {"first.bias", Element::f32},
                                                  {"second.weight", Element::i8},
                                                  {"second.weight_scale", Element::f32},
                                                  {"second.bias", Element::f32}});
  CHECK(types_in(exported(OnnxDialect::qonnx).graph) ==
        std::map<std::string, int64_t>{{"qonnx.custom_op.general:Quant", 4}, {":Conv", 2}, {":Relu", 2}});

  // Of each output: weights 0.5 and -1, gamma 2, variance 0.25, mean 3, beta 1.
  const auto read = [](const std::string& name) -> std::vector<float> {
    if (name == "first.weight") return {.5, -1, .5, -1, .5, -1, .5, -1, .5, -1, .5, -1, .5, -1, .5, -1};
    const float value = name == "norm.weight"         ? 2.F
                        : name == "norm.running_var"  ? .25F
                        : name == "norm.running_mean" ? 3.F
                                                      : 1.F;
    return std::vector<float>(8, value);
  };
  for (const float scale : floats_of(qdq, "first.weight_scale", read))
    CHECK_THAT(scale, Catch::Matchers::WithinRel(4.0 / 63, 1e-4));
  for (const float bias : floats_of(qdq, "first.bias", read))
    CHECK_THAT(bias, Catch::Matchers::WithinRel(-11.0, 1e-4));
}

TEST_CASE("export: values have types, and weights the names of the program") {
  const std::string text =
      std::string(kTokens) +
      "{relu: {}}, {linear: {name: head, out_features: 64, bias: false, weight_of: before}}]}\n";
  const ExportRequest request{.format = {}, .layer_of = [](const Origin&) { return ""; }};
  const OnnxGraph graph = export_program(prediction(text, 2), nullptr, request).graph;
  std::vector<std::string> weights;
  for (const OnnxInitializer& each : graph.initializers()) {
    if (each.is_weight()) weights.push_back(each.tensor.name);
  }
  CHECK(weights == std::vector<std::string>{"before.weight"});  // the head's is the same
  std::set<std::string> described;
  for (const OnnxTensor& tensor : graph.described()) described.insert(tensor.name);
  CHECK(described == std::set<std::string>{"Gather", "Relu"});
}

}  // namespace trainer
