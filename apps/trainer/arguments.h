// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/trainer/input_part.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace trainer {

/// Options of `generate` besides the recipe.
struct GenerateArguments {
  std::string prompt;
  std::string prompts;  ///< a file with a prompt in each line; empty: `prompt`
  int64_t tokens = 100, samples = 1;
  double temperature = 1;
  int64_t top_k = 0;  ///< 0: all
  double top_p = 1;
  int64_t seed = 0;
  bool keep_going = false;  ///< past the token that ends a text
  bool json = false;
};

/// Options of `predict` besides the network and the samples.
struct PredictArguments {
  std::string format = "jsonl";  ///< "csv", "table"
  bool has_format = false;       ///< it is given
  std::string tta;               ///< "flip", or empty
  bool errors_only = false;
  std::string gallery;       ///< the page to write, or empty
  std::string images;        ///< the folder for images, or empty
  int64_t batch = 0;         ///< rows of a batch; 0: those of the run's evaluation, or fewer for few samples
  std::string part_text;     ///< --part as it is given, or empty
  InputPart part;            ///< of the samples
  bool reads_paths = false;  ///< from the standard input, in place of images
  std::string id;            ///< a column that names the rows of a table, or empty
};

/// Options of `time` besides the recipe.
struct TimingArguments {
  std::string purpose = "train";  ///< "predict", "generate"
  std::string batch_text;         ///< --batch as it is given, or empty
  std::vector<int64_t> batches;   ///< none: the recipe's, or one sequence
  int64_t iterations = 50;
};

/// Options of `tune` besides the recipe.
struct TuneArguments {
  double from = 1e-6, to = 10;  ///< rates
  int64_t steps = 200, repeats = 1;
  int64_t only = 0;  ///< a micro-batch; 0: all
  double seconds = 2;
};

/// Options of `export` besides the network.
struct ExportArguments {
  std::string opset = "17";       ///< or "23"
  std::string batch;              ///< "any" or a number; empty: any, or 1 if the reader needs a number
  std::string input = "numbers";  ///< or "bytes"
  std::string output = "logits";  ///< or "probabilities"
  std::string reader;             ///< "hls4ml", or empty
  std::string dialect;            ///< of a network in 8 bits: "qdq", "qonnx", or empty: its values in f32
  int64_t length = 0;             ///< of sequences; 0: the recipe's
};

/// Options of `quantize` besides the network.
struct QuantizeArguments {
  std::string method = "percentile";
  int64_t samples = 512;
  std::vector<std::string> except;  ///< patterns of weights that stay in f32
  bool all = false;                 ///< products that are slower in 8 bits, too
  std::string weight_bits = "7";    ///< or "8"
  bool asks_ranges = false;         ///< method, samples or weight_bits are given
};

/// Options of `prune` besides the network.
struct PruneArguments {
  double keep = 0;                  ///< the share of channels
  std::string by = "l1";            ///< or "gamma"
  int64_t multiple = 8;             ///< of the channels that are kept
  std::vector<std::string> except;  ///< patterns of names
};

/// Options of `data check` besides the recipe.
struct CheckArguments {
  std::optional<int64_t> distance;  ///< most bits in which hashes of images that look alike differ
  std::string id;                   ///< a table's column that names its rows, or empty
  int64_t suspects = 0;             ///< 0: none are looked for
  std::vector<std::string> runs;    ///< directories
};

/// Options of `slurm` besides the recipe.
struct SlurmArguments {
  int64_t nodes = 1;
  int64_t tasks_per_node = 0;  ///< 0: one for each GPU, else one
  int64_t gpus_per_node = 0, cpus_per_task = 8;
  std::string time = "4:00:00";
  std::string partition, account, memory;  ///< empty: the site's
};

/// The command line. Keys of the recipe are changed by overrides alone; no key has a flag.
struct Arguments {
  enum class Command {
    train,
    init,
    eval,
    predict,
    generate,
    export_network,
    quantize,
    prune,
    plan,
    time,
    tune_lr,
    tune_batch,
    sweep,
    slurm,
    layers,
    schema,
    doctor,
    data_stats,
    data_check,
    data_pack,
    data_tokenize,
    inspect,
    import_weights,
    runs,
    compare,
    report,
    watch,
    track,
    completion,
    man
  };
  Command command = Command::train;
  std::vector<std::string> command_line;  ///< the program and all its arguments
  std::string config;   ///< eval, predict, generate, export, prune, quantize: empty if `run` is given
  std::string run;      ///< eval, predict, generate, export, prune, quantize: the run's directory; empty: the
                        ///< recipe's own
  std::string weights;  ///< eval, predict, generate, export, prune, quantize: a file or directory, empty: the
                        ///< run's; init: a file of that network, empty: none
  bool as_trained = false,
       as_written = false;  ///< eval, predict, generate, export, prune, quantize: whose settings count
  std::vector<std::string> overrides;
  bool dump_config = false;
  std::optional<std::string> dump;    ///< plan: "program", "program:after=PASS" or "plan"
  std::string devices;                ///< plan: those to compare, "a100,cpu"; empty: the recipe's device
  std::vector<std::string> prices;    ///< plan: "h100=2.5", perhaps several with commas between
  std::vector<std::string> measured;  ///< plan: "runs/x" or "h100=runs/x"
  std::string ranks;                  ///< plan: numbers of ranks, "8,64"; empty: only the recipe's
  std::string machine;                ///< plan: of these ranks, a name or a file
  bool weak = false;                  ///< plan: the global batch grows with them
  bool splits = false;                ///< plan: all divisions of each number
  double speed = 0;                   ///< plan: samples that one device trains in a second; 0: not given
  double decode_rate = 0;             ///< plan: samples that a core makes in a second; 0: not known
  bool time = false;                  ///< data stats: measure that number
  std::vector<std::string> disabled_passes;  ///< plan, train
  int64_t profiled_steps = 0;                ///< train: 0 for none
  bool json = false;    ///< plan, time, eval, data stats, data check, inspect, runs, runs compare, doctor
  bool strict = false;  ///< doctor
  std::string links;    ///< doctor: the machine's file to write; empty: none
  /// The file to write: data pack: the record or shard, or a folder for several; data check: what to exclude,
  /// empty for none; data tokenize: the shard, or a folder for several; doctor: the description of the GPU;
  /// predict: the lines, empty for the standard output; init: the recipe, empty for the path's name in the
  /// working directory; report: the page, empty for report.html in the run's directory; import: the
  /// safetensors file; export: the model; prune: the directory of the smaller network.
  std::string out;
  std::string split = "train";           ///< data pack, data tokenize, predict: "train" or "val"
  int64_t shard_tokens = 0;              ///< data tokenize: most tokens of a shard; 0: the command's default
  std::string packed_format = "record";  ///< data pack
  int64_t shard_samples = 0;             ///< data pack: most samples of a shard; 0: the command's default
  int64_t resize = 0;                    ///< data pack: shorter side of the images; 0: as they are
  std::vector<std::string> filters;      ///< data pack: "median", "median: 5"
  int64_t quality = 0;                   ///< data pack: of JPEG; 0: not given
  bool pixels = false;                   ///< data pack: PNG files in place of JPEG
  /// predict: images and folders; none: the split. report, runs compare: the runs. completion: the words of a
  /// command line.
  std::vector<std::string> inputs;
  int64_t top = 0;        ///< predict: classes with their probability; 0: the task's default
  bool all = false;       ///< predict: the probability of every class instead; runs compare: every setting
  bool markdown = false;  ///< schema
  bool metrics = false;   ///< schema
  PredictArguments predict;
  GenerateArguments generate;
  TimingArguments timing;
  TuneArguments tune;
  SlurmArguments slurm;
  bool sweep_plan = false;  ///< sweep: print the trials that are known, and end
  ExportArguments exported;
  QuantizeArguments quantize;
  PruneArguments prune;
  CheckArguments check;
  std::vector<std::string> renames;  ///< import: "OLD=NEW"
  bool list = false;                 ///< import: print the tensors instead
  std::string
      path;  ///< init, inspect, import, layers, runs, watch, track; doctor: to be read, empty for none
  std::string target;     ///< init: a table's column to predict, or empty
  std::string network;    ///< init: a network's name or file; empty: a network is chosen by the data
  std::string sort;       ///< runs: a column or a key; empty: newest first
  std::string completed;  ///< completion: "bash", "zsh", "fish" or "words"
};

/// The option --config and the overrides, for a command that reads a recipe.
void add_recipe(CLI::App& command, Arguments& arguments);

/// Declares all commands and options; parsing fills `arguments`.
void declare_commands(CLI::App& app, Arguments& arguments);

/// Reads the command line, or prints help or version and returns nothing. Throws Error (exit 64).
std::optional<Arguments> read_arguments(int argc, const char* const* argv);

}  // namespace trainer
