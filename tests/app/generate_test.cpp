// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/storage/safetensors.h"
#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

/// Learns each letter's successor within a second.
constexpr const char* kLetters = R"(version: 1
run: {name: letters, seed: 1, output_dir: run}
model:
  input: [16]
  input_kind: tokens
  layers:
    - embedding: {vocab_size: 256, features: 16, name: e}
    - linear: {out_features: 48, bias: false}
    - attention: {heads: 2, causal: true, name: a}
    - add: {inputs: [a, e]}
    - linear: 256
data: {format: text, train: letters.txt, val: null}
training: {max_duration: 100ba, global_batch_size: 16}
optimizer: {name: adamw, lr: 0.05}
)";

/// A workspace with a network that was trained on "abcdefg", again and again: windows of 16 begin with any of
/// the seven.
class Letters {
 public:
  Letters() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "abcdefg";
    workspace.write("letters.txt", text);
    workspace.write("r.yaml", kLetters);
    const Outcome trained = run_trainer({"train", "--config", "r.yaml"}, workspace.path());
    INFO(trained.errors);
    REQUIRE(trained.code == 0);
  }

  Outcome generate(std::vector<std::string> more) const {
    more.insert(more.begin(), {"generate", "--config", "r.yaml"});
    return run_trainer(more, workspace.path());
  }
  std::string text_of(const std::vector<std::string>& more) const {
    const Outcome outcome = generate(more);
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return outcome.output;
  }
  std::vector<Json> lines_of(const std::vector<std::string>& more) const {
    std::vector<Json> lines;
    for (const std::string& line : trainer::lines_of(text_of(more))) lines.push_back(Json::parse(line));
    return lines;
  }
  void refuses(const std::vector<std::string>& more, ExitCode code,
               const std::vector<std::string>& parts) const {
    const Outcome outcome = generate(more);
    CHECK(outcome.code == static_cast<int>(code));
    CHECK(outcome.output.empty());
    for (const std::string& part : parts) CHECK_THAT(outcome.errors, ContainsSubstring(part));
  }

  Workspace workspace;
};

}  // namespace

TEST_CASE("generate and eval read a published file: in a wrapper, with a tied head, and with masks") {
  const Workspace workspace;
  std::string text = kLetters;
  text.replace(text.find("- linear: 256"), 13,
               "- linear: {name: lm_head, out_features: 256, bias: false, weight_of: e}");
  workspace.write("letters.txt", std::string(400, 'a') + std::string(400, 'b'));
  workspace.write("r.yaml", text);
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin() + 1, {"--config", "r.yaml", "data.val=letters.txt"});
    const Outcome outcome = run_trainer(words, workspace.path());
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return outcome;
  };
  run({"train", "training.max_duration=5ba"});
  const SafetensorsFile own(workspace.path() / "run/model.safetensors");
  std::vector<StoredTensor> stored;
  std::vector<std::vector<float>> values;
  const auto add = [&](const std::string& name, const Shape& shape, std::vector<float> numbers) {
    stored.push_back({.name = "module." + name, .shape = shape});
    values.push_back(std::move(numbers));
  };
  for (const StoredTensor& tensor : own.tensors()) add(tensor.name, tensor.shape, own.read_floats(tensor));
  add("lm_head.weight", own.find("e.weight")->shape, own.read_floats(*own.find("e.weight")));
  add("h.0.attn.bias", {1, 1, 16, 16}, std::vector<float>(256, 1));
  write_safetensors(workspace.path() / "published.safetensors", stored, {},
                    [&](size_t i, const ByteSink& sink) { sink(std::as_bytes(std::span(values[i]))); });
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"eval", "--json"}, {"generate", "--prompt", "ab", "--tokens", "9"}}) {
    std::vector<std::string> published = words;
    published.emplace_back("run.resume=published.safetensors");
    const Outcome expected = run(words), found = run(published);
    CHECK_THAT(found.errors, ContainsSubstring("removed 'module.' from names of the file"));
    if (words[0] == "generate") CHECK(found.output == expected.output);
    if (words[0] == "eval") CHECK(Json::parse(found.output)["loss"] == Json::parse(expected.output)["loss"]);
  }
}

TEST_CASE("generate continues a text as the network was taught") {
  const Letters letters;
  CHECK(letters.text_of({"--prompt", "cd", "--tokens", "8", "--temperature", "0"}) == "cdefgabcde\n");
  CHECK(letters.text_of({"--prompt", "g", "--tokens", "3", "--top-k", "1"}) == "gabc\n");
  CHECK(letters.text_of({"--prompt", "g", "--tokens", "3", "--top-p", "0.1"}) == "gabc\n");
  CHECK(letters.text_of({"--prompt", "ab", "--tokens", "2", "--temperature", "0", "--samples", "2"}) ==
        "--- sample 0\nabcd\n--- sample 1\nabcd\n");
  const auto lines = letters.lines_of({"--prompt", "ab", "--tokens", "2", "--temperature", "0", "--json"});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] ==
        Json{{"prompt", "ab"}, {"sample", 0}, {"text", "cd"}, {"tokens", {99, 100}}, {"finished", "length"}});
}

TEST_CASE(
    "generate gives one line for each prompt and sample, which repeat and do not depend on each other") {
  const Letters letters;
  letters.workspace.write("prompts.txt", "ab\nefg");
  letters.workspace.write("other.txt", "efg\n");
  const std::vector<std::string> hot = {"--tokens", "10", "--temperature", "8", "--seed", "3"};
  const auto lines = [&](std::vector<std::string> more) {
    more.insert(more.end(), hot.begin(), hot.end());
    return letters.lines_of(more);
  };
  const auto four = lines({"--prompts", "prompts.txt", "--samples", "2"});
  REQUIRE(four.size() == 4);
  std::set<std::string> texts;
  for (size_t i = 0; i < 4; ++i) {
    CHECK(four[i]["prompt"] == (i < 2 ? "ab" : "efg"));
    CHECK(four[i]["sample"] == i % 2);
    CHECK(four[i]["tokens"].size() == 10);
    texts.insert(four[i]["text"]);
  }
  CHECK(texts.size() == 4);
  CHECK(lines({"--prompts", "prompts.txt", "--samples", "2"}) == four);
  CHECK(lines({"--prompts", "other.txt"})[0] == four[2]);
  CHECK(lines({"--prompts", "prompts.txt", "--samples", "5"})[1] == four[1]);
  CHECK(letters.lines_of(
            {"--prompts", "other.txt", "--tokens", "10", "--temperature", "8", "--seed", "4"})[0] != four[2]);
}

TEST_CASE("generate refuses what it cannot continue, and says what to do") {
  const Letters letters;
  letters.refuses({"--prompt", "", "--tokens", "2"}, ExitCode::usage, {"the prompt is empty"});
  letters.refuses({"--prompt", "abcdef", "--tokens", "11"}, ExitCode::usage,
                  {"6 tokens", "16 positions", "--tokens 10 or fewer"});
  letters.refuses({"--prompt", "abcdefgabcdefgab", "--tokens", "1"}, ExitCode::usage, {"shorten the prompt"});
  letters.refuses({"--prompts", "none.txt"}, ExitCode::usage, {"none.txt"});
  letters.refuses({"--prompt", "a", "--prompts", "none.txt"}, ExitCode::usage, {"--prompts"});
  letters.refuses({"--prompt", "a", "--top-p", "1.5"}, ExitCode::usage, {"--top-p"});
  letters.refuses({"--prompt", "a", "--top-p", "nan"}, ExitCode::usage,
                  {"--top-p", "expected a number from 0 to 1, got 'nan'"});
  letters.refuses({"--prompt", "a", "--temperature", "NaN"}, ExitCode::usage, {"--temperature"});
  letters.refuses({"--prompt", "a", "--tokens", "9223372036854775807"}, ExitCode::usage, {"or fewer"});
  letters.refuses({"--prompt", "a", "--samples", "3000000000"}, ExitCode::usage, {"--samples"});
  letters.refuses({"--prompt", "a", "--tokens", "2", "device.memory=1MiB"}, ExitCode::out_of_memory,
                  {"device.memory", "cache", "fewer --samples"});
  letters.refuses({"--prompt", "a", "--tokens", "2", "run.output_dir=elsewhere"}, ExitCode::data,
                  {"has not been trained here"});
  const Outcome predicted =
      run_trainer({"predict", "--config", "r.yaml", "--split", "train"}, letters.workspace.path());
  CHECK(predicted.code == static_cast<int>(ExitCode::recipe));
  CHECK_THAT(predicted.errors, ContainsSubstring("trainer generate"));
  letters.workspace.write("r.yaml", kSmallRecipe);
  letters.refuses({"--prompt", "a"}, ExitCode::recipe, {"model.input_kind", "trainer predict"});
}

TEST_CASE("generate and eval take a run's directory, and refuse another tokenizer than that of training") {
  const Letters letters;
  const auto use = [&](const std::string& words) {
    return run_shell("\"$TRAINER\" " + words, letters.workspace.path());
  };
  CHECK(use("generate run --prompt cd --tokens 3 --temperature 0").output == "cdefg\n");
  CHECK(use("generate --prompt cd --tokens 3 --temperature 0 run").output == "cdefg\n");
  CHECK_THAT(letters.workspace.read("run/log.txt"),
             ContainsSubstring("  trainer generate run --prompt TEXT\n"));
  // A token for each byte, without merges: bytes that are no visible characters are U+0100 and those after
  // it.
  Json vocabulary;
  for (int byte = 0, hidden = 0x100; byte < 256; ++byte) {
    const bool is_visible = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    const int code = is_visible ? byte : hidden++;
    const std::string text = code < 0x80 ? std::string(1, static_cast<char>(code))
                                         : std::string{static_cast<char>(0xc0 | code >> 6),
                                                       static_cast<char>(0x80 | (code & 0x3f))};
    vocabulary[text] = byte;
  }
  std::filesystem::create_directory(letters.workspace.path() / "words");
  letters.workspace.write("words/vocab.json", vocabulary.dump());
  letters.workspace.write("words/merges.txt", "#version: 0.2\n");
  for (const std::string words : {"generate run --prompt cd --tokens 3 ", "eval run data.val=letters.txt "}) {
    const Outcome other = use(words + "data.tokenizer=words");
    CHECK(other.code == 78);
    CHECK_THAT(other.errors,
               ContainsSubstring("error: data.tokenizer: run/model.safetensors was trained with "
                                 "{\"name\":\"bytes\",\"vocab_size\":256,") &&
                   ContainsSubstring("the recipe has {\"name\":\"byte-level BPE\""));
    CHECK(use(words + "data.tokenizer=words --as-trained").code == 78);
    CHECK(use(words + "data.tokenizer=words --as-written").code == 0);
  }
}

TEST_CASE("generate prints whole characters only") {
  const Letters letters;
  for (const char* seed : {"1", "2", "3"}) {
    const std::vector<std::string> wild = {"--prompt",      "é",    "--tokens", "14",
                                           "--temperature", "1000", "--seed",   seed};
    std::vector<std::string> as_json = wild;
    as_json.emplace_back("--json");
    const Json line = letters.lines_of(as_json).at(0);  // refuses text that is not UTF-8
    CHECK(line["tokens"].size() == 14);
    CHECK_NOTHROW(Json(letters.text_of(wild)).dump());
  }
}

TEST_CASE("generate ends when its reader has gone") {
  const Letters letters;
  const Outcome outcome = run_shell(
      "(\"$TRAINER\" generate --config r.yaml --prompt abc --tokens 10 --temperature 0; echo $? >code) | "
      "head -c 1",
      letters.workspace.path());
  CHECK(outcome.output == "a");
  CHECK_THAT(letters.workspace.read("code"), Catch::Matchers::StartsWith("0"));
}

TEST_CASE("generate on several ranks continues a file of prompts with the bytes of one") {
  if (!has_mpi()) return;
  const Letters letters;
  letters.workspace.write("prompts", "a\nbc\nabcdefga\nfg\nd\n");
  const std::string words = "generate run --prompts prompts --tokens 7 --samples 2 --seed 3";
  const Outcome one = run_shell("\"$TRAINER\" " + words, letters.workspace.path());
  REQUIRE(one.code == 0);
  for (const int ranks : {2, 6}) {
    const Outcome several = run_ranks(under_mpirun(ranks, words), letters.workspace.path());
    INFO(several.errors);
    CHECK(several.code == 0);
    CHECK(several.output == one.output);
  }
  const Outcome refused =
      run_ranks(under_mpirun(2, "generate run --prompt a --tokens 3"), letters.workspace.path());
  CHECK(refused.code == 64);
  CHECK_THAT(refused.errors, ContainsSubstring("the continuation of one prompt is done by one process"));
}

}  // namespace trainer
