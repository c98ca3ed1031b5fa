// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

const char* const kTextRecipe = R"(version: 1
run: {name: text, seed: 1, output_dir: runs/a}
model:
  input_kind: tokens
  input: [8]
  layers:
    - embedding: {vocab_size: 432, features: 16}
    - linear: {name: head, out_features: 432}
data:
  format: text
  train: "t*.txt"
  val: v.txt
  tokenizer: llama3.json
training: {max_duration: 2ep, global_batch_size: 4}
optimizer: {name: adamw, lr: 0.01}
validation: {metrics: [perplexity, bits_per_byte]}
device: {type: cpu}
)";

/// A recipe, two files to train on, one to validate, and a tokenizer.
struct TextWorkspace {
  TextWorkspace() {
    workspace.write("r.yaml", kTextRecipe);
    std::string text;
    for (int i = 0; i < 40; ++i) text += "kalo miren the king " + std::to_string(i) + "<|endoftext|>";
    for (const char* name : {"t1.txt", "t2.txt", "v.txt"}) workspace.write(name, text);
    fs::copy(TRAINER_SOURCE_DIR "/tests/fixtures/tokenizers/llama3.json", workspace.path() / "llama3.json");
  }
  Outcome run(const std::string& command, const std::string& more = "") const {
    return run_shell("\"$TRAINER\" " + command + " --config r.yaml " + more, workspace.path());
  }
  std::string run_well(const std::string& command, const std::string& more = "") const {
    const Outcome outcome = run(command, more);
    INFO(command << " " << more << ": " << outcome.output << outcome.errors);
    REQUIRE(outcome.code == 0);
    return outcome.output;
  }
  void refuse(const std::string& command, const std::string& more, int code,
              const std::string& message) const {
    const Outcome outcome = run(command, more);
    INFO(command << " " << more << ": " << outcome.errors);
    CHECK(outcome.code == code);
    CHECK_THAT(outcome.errors, ContainsSubstring(message));
  }
  Workspace workspace;
};

/// The validation lines of a run.
std::string validation_lines(const Workspace& workspace, const std::string& run) {
  std::string found;
  for (const std::string& line : lines_of(workspace.read(run + "/metrics.jsonl"))) {
    if (line.find("\"split\":\"validation\"") != std::string::npos)
      found += line.substr(0, line.find("\"memory_bytes\"")) + "\n";
  }
  return found;
}

}  // namespace

TEST_CASE("text: a file is tokenized at the start, and its shards give the same run") {
  const TextWorkspace text;
  CHECK_THAT(text.run_well("plan"), ContainsSubstring("2 files: 2.71 KiB became "));
  text.run_well("train");
  const std::string training = text.workspace.read("runs/a/log.txt");
  CHECK_THAT(training, ContainsSubstring("(llama3.json, 424 tokens: byte-level BPE)"));
  CHECK_THAT(training, ContainsSubstring("validation bits_per_byte "));
  CHECK_THAT(text.run_well("eval"), ContainsSubstring("bits_per_byte"));
  CHECK_THAT(text.run_well("data tokenize", "--out val.bin --split val"), ContainsSubstring("val.bin: "));
  text.run_well("data tokenize", "--out shards --shard-tokens 300");
  CHECK(fs::exists(text.workspace.path() / "shards/train_000001.bin"));
  text.refuse("data tokenize", "--out shards --shard-tokens 300", 64, "there are shards");
  text.refuse("data tokenize", "--out new/deep/x.bin", 64, "there is no folder new/deep; create it");
  text.refuse("data tokenize", "--out v.txt --split val", 64, "v.txt");
  text.refuse("data tokenize", "--out llama3.json --split val", 64, "llama3.json");
  const std::string shards = "data.format=tokens 'data.train=shards/*.bin' data.val=val.bin ";
  text.run_well("train", shards + "run.output_dir=runs/b");
  CHECK_THAT(validation_lines(text.workspace, "runs/a"), ContainsSubstring("\"bits_per_byte\":"));
  CHECK(validation_lines(text.workspace, "runs/a") == validation_lines(text.workspace, "runs/b"));
  text.refuse("train", shards + "data.tokenizer=null run.output_dir=runs/c", 78,
              "bits_per_byte needs the text's bytes");
  text.refuse("data tokenize", shards + "--out x", 78, "needs data.format text, got tokens");
}

TEST_CASE("text: documents that are separate begin behind the end of a text, in shards and in text") {
  const TextWorkspace text;
  const std::string attends =
      "'model.layers=[{embedding: {vocab_size: 432, features: 16}}, {linear: 48}, "
      "{attention: {heads: 2, causal: true}}, {linear: 432}]' 'validation.metrics=[perplexity]' ";
  const auto train = [&](const std::string& more, const std::string& run) {
    text.run_well("train", attends + more + " run.output_dir=" + run);
    return validation_lines(text.workspace, run);
  };
  text.run_well("data tokenize", "--out train.bin");
  text.run_well("data tokenize", "--out val.bin --split val");
  const std::string shards =
      "data.format=tokens data.train=train.bin data.val=val.bin data.tokenizer=null data.end_of_text=420 ";
  const std::string separate = train("data.mask_documents=true", "runs/separate");
  CHECK_THAT(separate, ContainsSubstring("perplexity"));
  CHECK(train(shards + "data.mask_documents=true", "runs/shards") == separate);
  CHECK(train("data.mask_documents=false", "runs/join") != separate);
  text.refuse("train",
              attends + shards + "data.mask_documents=true data.end_of_text=432 run.output_dir=runs/c", 78,
              "data.end_of_text: expected a token below 432");
}

TEST_CASE("text: what does not fit together is refused, and what is no UTF-8 is counted") {
  const TextWorkspace text;
  const std::string small = "'model.layers=[{embedding: {vocab_size: 423, features: 8}}, {linear: 423}]'";
  for (const char* command : {"plan", "train"})
    text.refuse(command, small, 78,
                "the network has 423 outputs, data.tokenizer (r.yaml:13:3) has 424 tokens; set "
                "out_features to 424 or more");
  text.refuse("train", "data.tokenizer=absent.json", 78, "data.tokenizer: ");
  text.workspace.write("damaged.json", "{\"model\":");
  text.refuse("train", "data.tokenizer=damaged.json", 65, "damaged.json: expected JSON");
  text.workspace.write("t2.txt", std::string("kalo \xff miren\xff"));
  const std::string counted = "2 places are not UTF-8 and were read as U+FFFD";
  CHECK_THAT(text.run("train").errors, ContainsSubstring(counted));
  const Outcome plan = text.run("plan");
  CHECK_THAT(plan.output + plan.errors, ContainsSubstring(counted));
  text.workspace.write("t1.txt", "");
  text.refuse("train", "run.output_dir=runs/b", 65, "t1.txt: offset 0: expected a text, found an empty file");
}

TEST_CASE("text: a weighted loss is a mean over valid targets, in training and in evaluation") {
  // Logits of zero: each position's loss is log 256, and so is any mean of them.
  const TextWorkspace text;
  std::string weights = "0.5";
  for (int i = 1; i < 256; ++i) weights += i % 2 == 0 ? ", 2" : ", 3";
  const std::string command =
      "'model.layers=[{embedding: {vocab_size: 256, features: 2}}, {linear: {out_features: 256, bias: false, "
      "init: normal, init_std: 1.0e-30}}]' data.tokenizer=bytes 'validation.metrics=[perplexity, top1]' "
      "optimizer.lr=0 training.max_duration=2ba logging.interval=1ba 'loss={name: cross_entropy, "
      "ignore_index: "
      "32, class_weights: [" +
      weights + "]}'";
  for (const std::string micro : {"4", "2"}) {
    const std::string run = "runs/weighted" + micro;
    text.run_well("train", command + " training.micro_batch_size=" + micro + " run.output_dir=" + run);
    int lines = 0;
    for (const std::string& line : lines_of(text.workspace.read(run + "/metrics.jsonl"))) {
      if (line.find("\"loss\":5.545") == std::string::npos) continue;
      ++lines;
    }
    CHECK(lines == 3);  // two of training, one of validation
    CHECK_THAT(validation_lines(text.workspace, run),
               ContainsSubstring("\"perplexity\":256.") || ContainsSubstring("\"perplexity\":255.99"));
  }
}

TEST_CASE("text: a network of tokens trains on made-up text, without files") {
  const TextWorkspace text;
  text.run_well(
      "train",
      "'model.layers=[{embedding: {vocab_size: 300, features: 32}}, {linear: 300}]' data.format=synthetic "
      "data.tokenizer=null training.max_duration=200ba training.global_batch_size=16 optimizer.lr=0.05 "
      "run.output_dir=runs/synthetic "
      "'validation.metrics=[perplexity, bits_per_byte]'");
  // Three of four tokens are certain, the others one of 64: the best loss is 1.58, the first log 300.
  std::string lines = validation_lines(text.workspace, "runs/synthetic");
  const auto line = nlohmann::json::parse(lines.substr(0, lines.rfind(',')) + "}");
  const double loss = line["loss"];
  CHECK(loss < 1.8);
  CHECK(loss > 1.5);
  CHECK(line["bits_per_byte"].get<double>() == Approx(loss / std::log(2.0)));
  text.refuse("data stats", "data.format=synthetic", 78, "the text of synthetic is made up");
  text.refuse("train", "data.format=synthetic data.mask_documents=true", 78, "made-up text has no documents");
}

TEST_CASE("text: commands for images say what to use instead, and stats counts tokens") {
  const TextWorkspace text;
  CHECK_THAT(text.run_well("data stats"), ContainsSubstring("different tokens, the highest 420"));
  CHECK_THAT(text.run_well("data stats", "--json"), ContainsSubstring("\"highest\": 420"));
  text.refuse("data pack", "--out x.rec", 78, "`trainer data tokenize` writes text as shards");
  const Outcome init = run_trainer({"init", "t1.txt"}, text.workspace.path());
  CHECK(init.code == 65);
  CHECK_THAT(init.errors,
             ContainsSubstring("t1.txt: expected images; for text and shards of tokens write a recipe"));
}

}  // namespace trainer
