// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/command_notes.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <vector>

#include "core/base/split.h"

namespace trainer {
namespace {

constexpr size_t kHelpWidth = 100;

constexpr const char* kWhereWeights =
    "Uses the best weights of the run, else its last ones. With --config, uses the last weights of the "
    "recipe's\n"
    "own run. Weights that were trained with other transforms, classes or another tokenizer are refused.";

struct Notes {
  const char* note;
  const char* examples;
  std::vector<int> codes;  ///< in addition to 0 and 64
};

const std::map<std::string, Notes>& all_notes() {
  static const std::string predict =
      std::string(kWhereWeights) + "\nWrite ./key=value for a file whose name looks like an override.";
  static const std::string of_export =
      std::string(kWhereWeights) +
      "\nWeights of 2 GB and more are written beside the model, as FILE.data; keep both in one folder.";
  static const std::string of_quantize = std::string(kWhereWeights) +
                                         "\nRanges of activations are observed on samples of data.train, "
                                         "without augmentation;\na run with compression.quantize has "
                                         "them already. Products that are not "
                                         "faster\nin 8 bits on this processor stay in f32.";
  static const std::string of_prune = std::string(kWhereWeights) +
                                      "\nThe smaller network trains on: its recipe begins with its weights. "
                                      "Channels that an operation needs as "
                                      "they\nare stay; the table names it.";
  static const std::map<std::string, Notes> notes = {
      {"",
       {"A recipe without a command is trained.",
        "trainer configs/fashion_mnist_cnn.yaml optimizer.lr=0.05 training.max_duration=3ep",
        {65, 69, 70, 71, 74, 75, 76, 78, 130}}},
      {"train",
       {"",
        "trainer train --config resnet.yaml optimizer.lr=0.05\n"
        "trainer resnet.yaml optimizer.lr=0.05      the same",
        {65, 69, 70, 71, 74, 75, 76, 78, 130}}},
      {"init", {"", "trainer init images --output images.yaml", {65, 71, 74, 78}}},
      {"eval",
       {kWhereWeights,
        "trainer eval runs/resnet-1f7b5899\n"
        "trainer eval --config resnet.yaml --weights runs/best",
        {65, 69, 70, 71, 74, 75, 78}}},
      {"predict",
       {predict.c_str(),
        "trainer predict runs/resnet-1f7b5899 --top 3 cat.jpg folder",
        {65, 69, 70, 71, 74, 75, 78}}},
      {"generate",
       {kWhereWeights,
        "trainer generate runs/gpt-5c2b7e01 --prompt \"Once upon\" --tokens 200 --temperature 0.8\n"
        "The same seed gives the same text.",
        {65, 69, 70, 71, 74, 75, 78}}},
      {"export",
       {of_export.c_str(),
        "trainer export runs/resnet-1f7b5899 --out resnet.onnx\n"
        "trainer export --config mlp.yaml --out mlp.onnx --for hls4ml",
        {65, 71, 74, 75, 78}}},
      {"quantize",
       {of_quantize.c_str(),
        "trainer quantize runs/resnet-1f7b5899 --out resnet-int8.safetensors\n"
        "trainer eval runs/resnet-1f7b5899 --weights resnet-int8.safetensors",
        {65, 69, 70, 71, 74, 75, 78}}},
      {"prune",
       {of_prune.c_str(),
        "trainer prune runs/resnet-1f7b5899 --keep 0.5 --out smaller\n"
        "trainer prune --config resnet.yaml --keep 0.7 --by gamma --except \"layer4.*\" --out smaller",
        {65, 71, 74, 75, 78}}},
      {"plan",
       {"",
        "trainer plan --config resnet.yaml training.global_batch_size=256\n"
        "trainer plan --config resnet.yaml --devices a100,h100,cpu --price a100=1.2,h100=2.5",
        {65, 69, 71, 74, 78}}},
      {"time",
       {"A training step is timed with a learning rate of 0. Layers are timed in a second pass, operation by "
        "operation.",
        "trainer time --config resnet.yaml --purpose predict --batch 1,32\n"
        "trainer time --config gpt.yaml --purpose generate --json",
        {65, 69, 70, 71, 74, 75, 78}}},
      {"tune", {"", "trainer tune lr --config resnet.yaml", {65, 69, 70, 71, 74, 75, 78}}},
      {"tune lr",
       {"Trains from the first weights while the rate rises, until the smoothed loss is four times its best. "
        "Writes no run.",
        "trainer tune lr --config resnet.yaml --from 1e-5 --to 1 --repeats 3",
        {65, 69, 70, 71, 74, 75, 78}}},
      {"tune batch",
       {"Each micro-batch trains in a process of its own. The smallest within 5 % of the fastest is "
        "suggested.",
        "trainer tune batch --config resnet.yaml training.global_batch_size=256",
        {65, 69, 70, 71, 74, 75, 78}}},
      {"sweep",
       {"Each setting trains in a process and a run directory of its own, below run.output_dir. The same "
        "command "
        "goes on\nwhere it was stopped, and may be started several times at once.",
        "trainer sweep --config resnet.yaml\n"
        "trainer sweep --config resnet.yaml sweep.trials=50 sweep.parallel=2",
        {65, 69, 70, 71, 74, 75, 78, 130}}},
      {"slurm",
       {"The script saves, requeues and resumes the run by itself. Keep it with the recipe, and edit it.",
        "trainer slurm --config resnet.yaml --nodes 2 --gpus-per-node 4 --time 12:00:00 > resnet.sbatch\n"
        "sbatch resnet.sbatch",
        {71, 74, 78}}},
      {"layers", {"", "trainer layers | less\ntrainer layers conv2d", {71, 74}}},
      {"schema", {"", "trainer schema > recipe.schema.json", {71, 74}}},
      {"doctor", {"", "trainer doctor --read images\ntrainer doctor --device-json gpu.json", {69, 71, 74}}},
      {"data", {"", "trainer data stats --config resnet.yaml", {65, 71, 74, 78}}},
      {"data check",
       {"Reads every image, or row of a table, once. Keep the file of --write with the recipe, and edit it: "
        "each "
        "line\nnames one sample. Of tables it also lists columns with one value, those that identify rows, "
        "and "
        "those that\nalone predict the target; near duplicates are looked for among images only.",
        "trainer data check --config resnet.yaml --write exclude.txt\n"
        "trainer data check --config table.yaml --id passenger\n"
        "trainer data check --run runs/fold0 --run runs/fold1 --suspects 200 --json",
        {65, 70, 71, 74, 75, 78}}},
      {"data stats",
       {"",
        "trainer data stats --config resnet.yaml --json\n"
        "trainer data stats --config resnet.yaml --time",
        {65, 71, 74, 78}}},
      {"data pack", {"", "trainer data pack --config resnet.yaml --out train.rec", {65, 71, 74, 75, 78}}},
      {"data tokenize", {"", "trainer data tokenize --config text.yaml --out shards", {65, 71, 74, 75, 78}}},
      {"import",
       {"Reads a state dict, alone or below the keys state_dict, model or model_state_dict. Nothing of the "
        "file "
        "is\nexecuted: any name but those of tensors is refused.",
        "trainer import resnet18.pth --out resnet18.safetensors\n"
        "trainer import detector.pth --out body.safetensors --rename backbone.=",
        {65, 71, 74, 75}}},
      {"inspect", {"", "trainer inspect runs/resnet-1f7b5899", {65, 71, 74}}},
      {"runs",
       {"Prints the keys of the recipes in which the runs differ. Keys that do not fit are left out.",
        "trainer runs --sort best runs/sweep\ntrainer runs compare runs/a runs/b",
        {71, 74}}},
      {"runs compare", {"", "trainer runs compare runs/a runs/b", {71, 74}}},
      {"report",
       {"Several runs are drawn over each other, with a table of their results.",
        "trainer report runs/resnet-1f7b5899 --output report.html\ntrainer report runs/sweep",
        {65, 71, 74}}},
      {"watch",
       {"Ends with the run, or with Ctrl-C, which the run does not notice. If the output is not a terminal, "
        "it prints\n"
        "once.",
        "trainer watch runs/resnet-1f7b5899",
        {71, 74}}},
      {"track",
       {"A run sends its metrics itself while it trains (logging.mlflow in its recipe). This command sends "
        "what "
        "is\nmissing, after a server was gone or a run was killed. Nothing is sent twice.",
        "trainer track runs/resnet-1f7b5899\n"
        "trainer track runs/resnet-1f7b5899 logging.mlflow.uri=http://localhost:5000",
        {65, 71, 74, 75}}},
      {"completion",
       {"", "trainer completion bash > ~/.local/share/bash-completion/completions/trainer", {71, 74}}},
      {"man", {"", "trainer man | man -l -", {71, 74}}},
  };
  return notes;
}

const char* meaning(int code) {
  switch (code) {
    case 0:
      return "done";
    case 64:
      return "usage";
    case 65:
      return "data";
    case 69:
      return "no such device";
    case 70:
      return "internal or numeric error";
    case 71:
      return "out of memory";
    case 74:
      return "I/O";
    case 75:
      return "stopped (start the same command again)";
    case 76:
      return "another rank was lost";
    case 78:
      return "recipe";
    case 130:
      return "a second Ctrl-C";
    default:
      throw std::logic_error("an exit code without a meaning");
  }
}

std::string exit_codes(const std::vector<int>& codes) {
  std::string text = "Exit codes: ", line = fmt::format("0 {}, 64 {}", meaning(0), meaning(64));
  size_t begin = text.size();
  for (const int code : codes) {
    const std::string next = fmt::format("{} {}", code, meaning(code));
    if (begin + line.size() + next.size() + 3 > kHelpWidth) {
      text += line + ",\n";
      line.clear();
      begin = 0;
    }
    line += (line.empty() ? "" : ", ") + next;
  }
  return text + line + ".";
}

}  // namespace

std::string notes_of(const std::string& command) {
  const Notes& notes = all_notes().at(command);
  std::string text = notes.note;
  if (!text.empty()) text += "\n\n";
  text += "Example:\n";
  for (const std::string& line : split(notes.examples, '\n')) text += "  " + line + "\n";
  return text + "\n" + exit_codes(notes.codes);
}

}  // namespace trainer
