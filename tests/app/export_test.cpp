// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include "core/storage/safetensors.h"
#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string kRecipe = R"(version: 1
data: {format: synthetic}
model:
  input: [1, 9, 9]
  layers: [POOL: {output_size: [SIZE, 3]}, flatten, linear: {name: head, out_features: 4}]
)";
const std::string kText = R"(version: 1
data: {format: text, train: none.txt, val: null}
model:
  input: [6]
  input_kind: tokens
  layers:
    - embedding: {name: table, vocab_size: 9, features: 4}
    - positions: {name: places, max_positions: 8}
    - linear: {name: head, out_features: 9, weight_of: table, bias: false}
)";

/// A parameter has the layer's own name.
const std::string kToken = R"(version: 1
data: {format: synthetic}
model:
  input: [1, 2, 2]
  layers: [to_tokens, class_token: {name: NAME}, mean_tokens, linear: {name: head, out_features: 4}]
)";
std::string named_token(const std::string& name) {
  std::string text = kToken;
  return text.replace(text.find("NAME"), 4, name);
}

std::string pooled(const std::string& size) {
  std::string text = kRecipe;
  text.replace(text.find("POOL"), 4, "adaptive_avg_pool2d");
  return text.replace(text.find("SIZE"), 4, size);
}

/// A folder with a network of images and one of tokens, and weights of the first.
struct ExportFolder {
  Workspace workspace;
  ExportFolder() {
    workspace.write("r.yaml", pooled("3"));
    workspace.write("uneven.yaml", pooled("4"));
    workspace.write("text.yaml", kText);
    const std::vector<StoredTensor> tensors = {{.name = "head.weight", .shape = {4, 9}},
                                               {.name = "head.bias", .shape = {4}}};
    write_safetensors(workspace.path() / "w.safetensors", tensors, {}, [&](size_t i, const ByteSink& sink) {
      sink(std::vector<std::byte>(static_cast<size_t>(4 * numel(tensors[i].shape))));
    });
  }
  Outcome run(const std::string& options, const std::string& recipe = "r.yaml") const {
    return run_shell("\"$TRAINER\" export --config " + recipe + " --weights w.safetensors " + options,
                     workspace.path());
  }
};

void check_refused(const Outcome& outcome, int code, const std::string& text) {
  CHECK(outcome.code == code);
  CHECK_THAT(outcome.errors, ContainsSubstring(text));
}

}  // namespace

TEST_CASE("export writes a model and says what it has") {
  const ExportFolder folder;
  const Outcome outcome = folder.run("--out m.onnx");
  INFO(outcome.errors);
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.output, ContainsSubstring("m.onnx: 3 nodes, "));
  CHECK(std::filesystem::file_size(folder.workspace.path() / "m.onnx") > 4 * 40);
}

TEST_CASE("export refuses options that do not fit") {
  const ExportFolder folder;
  check_refused(folder.run("--out m.tflite"), 64, "expected a file that ends in .onnx");
  check_refused(folder.run("--out m.onnx --batch 0"), 64, "--batch takes any, or a whole number from 1");
  check_refused(folder.run("--out m.onnx --batch x"), 64, "got 'x'");
  check_refused(folder.run("--out m.onnx --opset 18"), 64, "--opset");
  check_refused(folder.run("--out m.onnx --for hls4ml --batch any"), 64, "needs a fixed batch");
  check_refused(folder.run("--out m.onnx --for hls4ml --input bytes"), 64, "--input bytes needs a Cast");
  check_refused(folder.run("--out m.onnx --length 5"), 64, "--length is for networks that read tokens");
  check_refused(folder.run("--out m.onnx --length 9", "text.yaml"), 64,
                "--length 9 does not fit the network");
  check_refused(folder.run("--out m.onnx --input bytes", "text.yaml"), 64, "--input bytes is for networks");
  check_refused(folder.run("--out w.safetensors.onnx -x"), 64, "-x");
}

TEST_CASE("export refuses layers without a form at their place, with what works") {
  const ExportFolder folder;
  const Outcome uneven = folder.run("--out m.onnx", "uneven.yaml");
  check_refused(uneven, 78, "uneven.yaml:5:12: error: model.layers[0].adaptive_avg_pool2d");
  CHECK_THAT(uneven.errors, ContainsSubstring("write output_size: [3, 3]"));
  const Outcome hls4ml = folder.run("--out m.onnx --for hls4ml", "text.yaml");
  check_refused(hls4ml, 78, "text.yaml:7:7: error: model.layers[0].embedding: hls4ml 1.3.0 does not take");
  CHECK(!std::filesystem::exists(folder.workspace.path() / "m.onnx"));
}

TEST_CASE("export leaves no file without weights, or on a full disk") {
  const ExportFolder folder;
  check_refused(folder.run("--out m.onnx", "text.yaml"), 65, "table.weight");
  CHECK(folder.run("--out m.onnx --weights none.safetensors").code != 0);
  const Outcome full =
      run_shell("ulimit -f 0; \"$TRAINER\" export --config r.yaml --weights w.safetensors --out m.onnx",
                folder.workspace.path());
  CHECK(full.code == 74);
  CHECK(!std::filesystem::exists(folder.workspace.path() / "m.onnx"));
}

TEST_CASE("export says that an earlier model's data is not read") {
  const ExportFolder folder;
  folder.workspace.write("m.onnx.data", "");
  CHECK_THAT(folder.run("--out m.onnx").errors,
             ContainsSubstring("m.onnx.data: the model does not read this file"));
}

TEST_CASE("a layer with the name of a tensor is refused at its name") {
  const ExportFolder folder;
  folder.workspace.write("t.yaml", named_token("images"));
  check_refused(folder.run("--out m.onnx", "t.yaml"), 78,
                "t.yaml:5:37: error: model.layers[1].class_token.name: the layer's 'images' has the name of");
  folder.workspace.write("t.yaml", named_token("labels"));
  check_refused(run_shell("\"$TRAINER\" plan --config t.yaml", folder.workspace.path()), 78,
                "the layer's 'labels' has the name of another tensor");
}

}  // namespace trainer
