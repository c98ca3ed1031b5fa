// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/catch.h"

#include "core/quantization/int8_network.h"
#include "core/storage/safetensors.h"
#include "tests/app/command.h"
#include "tests/processor.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

/// A small residual network with batch normalisation, and a head.
constexpr const char* kRecipe = R"(version: 1
run: {name: small, seed: 5, output_dir: run}
model:
  input: [3, 12, 12]
  layers:
    - conv2d: {out_channels: 16, kernel_size: 3, padding: 1, bias: false, name: conv1}
    - batch_norm: {name: bn1}
    - relu: {name: stem}
    - conv2d: {out_channels: 16, kernel_size: 3, padding: 1, name: conv2}
    - batch_norm: {name: bn2}
    - add: {inputs: [bn2, stem]}
    - relu
    - conv2d: {out_channels: 32, kernel_size: 1, name: conv3}
    - global_avg_pool2d
    - flatten
    - linear: {out_features: 7, name: head}
data: {format: synthetic, synthetic: {train_samples: 320, val_samples: 101}}
training: {max_duration: 60ba, global_batch_size: 32}
optimizer: {name: adamw, lr: 0.01}
validation: {metrics: [top1], interval: 30ba}
)";

/// A workspace with a trained network, trained once for all tests.
const Workspace& trained() {
  static const Workspace workspace;
  static const bool is_trained = [] {
    workspace.write("r.yaml", kRecipe);
    const Outcome outcome = run_trainer({"--config", "r.yaml"}, workspace.path());
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return true;
  }();
  REQUIRE(is_trained);
  return workspace;
}

Outcome run(const std::string& command, std::vector<std::string> more) {
  more.insert(more.begin(), {command, "--config", "r.yaml"});
  return run_trainer(more, trained().path());
}

Outcome run_well(const std::string& command, const std::vector<std::string>& more) {
  Outcome outcome = run(command, more);
  INFO(command << ": " << outcome.errors);
  REQUIRE(outcome.code == 0);
  return outcome;
}

Json evaluated(const std::string& weights) {
  return Json::parse(run_well("eval", {"--json", "--weights", weights}).output);
}

Int8Network network_in(const std::string& file) {
  const SafetensorsFile weights(trained().path() / file);
  return int8_network_from(weights.metadata().at(kQuantizationMetadata), file);
}

void check_refused(const Outcome& outcome, ExitCode code, const std::string& text) {
  INFO(outcome.output);
  CHECK(outcome.code == static_cast<int>(code));
  CHECK_THAT(outcome.errors, ContainsSubstring(text));
}

}  // namespace

TEST_CASE("a network in 8 bits is a fourth as large and evaluates as it did") {
  const std::string model = "run/model.safetensors";
  const Json wide = evaluated(model);
  for (const std::string method : {"min_max", "percentile", "entropy"}) {
    INFO(method);
    const Outcome made = run_well(
        "quantize", {"--out", method + ".safetensors", "--method", method, "--samples", "100", "--all"});
    CHECK_THAT(made.output, ContainsSubstring("4 products in 8 bits, 0 in f32"));
    const Int8Network network = network_in(method + ".safetensors");
    CHECK(network.method == method);
    CHECK(network.samples == 96);  // whole batches
    CHECK(network.weights.bits == 7);
    CHECK(network.inputs.size() == 4);
    const Json narrow = evaluated(method + ".safetensors");
    CHECK(std::abs(narrow["top1"].get<double>() - wide["top1"].get<double>()) < 0.05);
    CHECK(std::abs(narrow["loss"].get<double>() - wide["loss"].get<double>()) < 0.1);
    CHECK(narrow["loss"] != wide["loss"]);
  }
  const Json metrics = Json::parse(run_well("eval", {"--json", "run.resume=entropy.safetensors"}).output);
  CHECK(metrics["loss"] == evaluated("entropy.safetensors")["loss"]);
}

TEST_CASE("what is excepted, or slower, stays in f32 with its reason") {
  const int64_t bits = has_vnni() ? 8 : 7;
  run_well("quantize", {"--out", "e.safetensors", "--samples", "32", "--except", "conv[12]*", "--except",
                        "head.weight", "--all", "--weight-bits", std::to_string(bits)});
  const Int8Network network = network_in("e.safetensors");
  CHECK(network.weights.bits == bits);
  CHECK(network.inputs.size() == 1);
  CHECK(network.in_f32 == std::map<std::string, std::string>{{"conv1.weight", "--except"},
                                                             {"conv2.weight", "--except"},
                                                             {"head.weight", "--except"}});
  const SafetensorsFile weights(trained().path() / "e.safetensors");
  CHECK(weights.find("conv3.weight")->dtype == "I8");
  CHECK(weights.find("conv3.weight_scale")->shape == Shape{32});
  CHECK(weights.find("conv1.weight")->dtype == "F32");
  const std::string plan = run_well("plan", {"run.resume=e.safetensors"}).output;
  CHECK_THAT(plan,
             ContainsSubstring("computed in f32 (--except): conv1.weight, conv2.weight, head.weight\n"));
  CHECK_THAT(plan, ContainsSubstring("one batch: "));

  const Outcome timed = run("quantize", {"--out", "t.safetensors", "--samples", "32"});
  if (timed.code == 0) {
    for (const auto& [name, reason] : network_in("t.safetensors").in_f32) {
      CHECK(reason == "slower in 8 bits");
      CHECK_THAT(timed.errors, ContainsSubstring(name + " stays in f32: "));
    }
  } else {
    check_refused(timed, ExitCode::recipe, "no product is left for 8 bits");
  }
}

TEST_CASE("two quantisations give the same file") {
  for (const char* name : {"a.safetensors", "b.safetensors"})
    run_well("quantize", {"--out", name, "--samples", "64", "--all"});
  CHECK(trained().read("a.safetensors") == trained().read("b.safetensors"));
}

TEST_CASE("prediction, timing, planning and export take weights of 8 bits; training does not") {
  run_well("quantize", {"--out", "q.safetensors", "--samples", "64", "--all"});
  CHECK_THAT(run_well("predict", {"--weights", "q.safetensors", "--top", "1"}).output,
             ContainsSubstring("\"class\""));
  CHECK_THAT(run_well("export", {"--weights", "q.safetensors", "--out", "q.onnx"}).errors,
             ContainsSubstring("its outputs are not those in 8 bits; --dialect qdq writes these"));
  CHECK(run_well("export", {"--weights", "q.safetensors", "--out", "q.onnx", "--dialect", "qdq"})
            .errors.empty());
  check_refused(run("export", {"--out", "x.onnx", "--dialect", "qdq"}), ExitCode::usage,
                "--dialect is for networks in 8 bits, and run/model.safetensors is in f32");
  check_refused(
      run("export", {"--weights", "q.safetensors", "--out", "x.onnx", "--dialect", "qdq", "--for", "hls4ml"}),
      ExitCode::usage, "--for hls4ml needs --dialect qonnx");
  check_refused(run("export", {"--weights", "q.safetensors", "--out", "x.onnx", "--dialect", "qonnx", "--for",
                               "hls4ml"}),
                ExitCode::recipe, "train with compression.quantize.weights: per_tensor");
  CHECK_FALSE(fs::exists(trained().path() / "x.onnx"));
  run_well("time", {"--purpose", "predict", "--iterations", "2", "run.resume=q.safetensors"});
  run_well("time", {"--purpose", "predict", "--batch", "3", "--iterations", "2", "run.resume=q.safetensors",
                    "training.micro_batch_size=auto"});
  check_refused(run("time", {"--iterations", "2", "run.resume=q.safetensors"}), ExitCode::data,
                "q.safetensors has weights of 8 bits, which training cannot start from");
  check_refused(run("train", {"model.initial_weights=q.safetensors", "run.output_dir=other"}), ExitCode::data,
                "q.safetensors has weights of 8 bits, which training cannot start from");
  check_refused(run("train", {"run.resume=q.safetensors", "run.output_dir=third"}), ExitCode::data,
                "is neither a checkpoint nor a run with an intact one");
  if (!has_cuda()) return;
  check_refused(run("plan", {"run.resume=q.safetensors", "device.type=cuda", "device.model=h200"}),
                ExitCode::recipe, "products in 8 bits run on CPUs only; set device.type=cpu, or export");
}

TEST_CASE("quantisations that cannot work are refused") {
  run_well("quantize", {"--out", "f.safetensors", "--samples", "32", "--all"});
  const std::vector<std::string> out = {"--out", "x.safetensors"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), out.begin(), out.end());
    return run("quantize", more);
  };
  check_refused(with({"--weights", "f.safetensors"}), ExitCode::data, "has weights of 8 bits already");
  check_refused(with({"--except", "nothing*"}), ExitCode::usage,
                "--except nothing*: no product has weights of that name; they are conv1.weight");
  check_refused(with({"--method", "max"}), ExitCode::usage, "max");
  check_refused(with({"--weight-bits", "4"}), ExitCode::usage, "4");
  check_refused(with({"--samples", "0"}), ExitCode::usage, "--samples");
  check_refused(run("quantize", {"--out", "run/model.safetensors"}), ExitCode::usage, "model.safetensors");
  check_refused(with({"--as-written",
                      "data={format: image_folder, train: none, val: null, augment: "
                      "[{random_resized_crop: 12}], eval_transform: [{resize: 12}, {center_crop: 12}]}"}),
                ExitCode::recipe, "none");
  CHECK(!fs::exists(trained().path() / "x.safetensors"));
}

TEST_CASE("files of 8 bits that do not fit, or are damaged, are refused by name") {
  run_well("quantize", {"--out", "g.safetensors", "--samples", "32", "--all"});
  const std::string whole = trained().read("g.safetensors");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    REQUIRE(text.find(from) != std::string::npos);
    REQUIRE(from.size() == to.size());
    for (size_t place = 0; (place = text.find(from, place)) != std::string::npos; place += from.size())
      text.replace(place, from.size(), to);
    trained().write("h.safetensors", text);
    return run("eval", {"--weights", "h.safetensors"});
  };
  check_refused(with("conv3", "conv9"), ExitCode::data,
                "h.safetensors has 8-bit weights 'conv9.weight', for which this network has no product");
  check_refused(with("\\\"conv3.weight\\\":", "\\\"conv9.weight\\\":"), ExitCode::data,
                "h.safetensors: 'conv3.weight' has 8-bit weights, and the metadata no range");
  check_refused(with("weight_bits\\\":7", "weight_bits\\\":9"), ExitCode::data,
                "h.safetensors: the metadata 'quantization' is damaged: 'weight_bits'");
  check_refused(with("\"head.weight_scale\"", "\"head.weight_scalf\""), ExitCode::data, "head.weight_scal");

  // The scale of the first output of the head, in place of which there is none.
  const SafetensorsFile weights(trained().path() / "g.safetensors");
  const StoredTensor* scale = weights.find("head.weight_scale");
  std::string text = whole;
  const size_t data = text.size() - static_cast<size_t>(weights.tensors().back().end);
  text.replace(data + static_cast<size_t>(scale->begin), 4, std::string(4, '\0'));
  trained().write("h.safetensors", text);
  check_refused(run("eval", {"--weights", "h.safetensors"}), ExitCode::data,
                "h.safetensors: tensor \"head.weight\" holds I8: expected scales above 0");
}

TEST_CASE("weights that are NaN have no ranges") {
  const SafetensorsFile weights(trained().path() / "run/model.safetensors");
  std::string text = trained().read("run/model.safetensors");
  const size_t data = text.size() - static_cast<size_t>(weights.tensors().back().end);
  text.replace(data + static_cast<size_t>(weights.find("conv2.weight")->begin), 4, std::string(4, '\xff'));
  trained().write("nan.safetensors", text);
  check_refused(run("quantize", {"--weights", "nan.safetensors", "--out", "n.safetensors"}), ExitCode::data,
                "the input of 'conv3.weight' has infinite or NaN values in batch 1 of the calibration");
}

TEST_CASE("networks of tokens are not quantised yet") {
  const Workspace workspace;
  workspace.write("t.yaml", R"(version: 1
model:
  input: [8]
  input_kind: tokens
  layers: [{embedding: {vocab_size: 256, features: 8}}, {linear: 256}]
data: {format: text, train: t.txt, val: null}
training: {max_duration: 1ba, global_batch_size: 2}
optimizer: {name: sgd, lr: 0.1}
)");
  check_refused(run_trainer({"quantize", "--config", "t.yaml", "--out", "q.safetensors"}, workspace.path()),
                ExitCode::recipe, "networks of tokens are not quantised yet");
}

}  // namespace trainer
