// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <system_error>

#include "apps/trainer/command_notes.h"
#include "apps/trainer/command_words.h"
#include "apps/trainer/option_values.h"
#include "apps/trainer/search_arguments.h"
#include "apps/trainer/slurm_arguments.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/trained_arguments.h"
#include "core/base/error.h"
#include "core/base/memory_reserve.h"
#include "core/base/version.h"

namespace trainer {
namespace {

/// For parsing a command line, or for its help.
constexpr size_t kMemoryOfWords = size_t{1} << 18;

// The help, the manual page and shells show an option's type. Shells complete FILE, DIRECTORY and KEY=VALUE
// (completion.cpp); lower-case text is the value itself.

void add_config(CLI::App& command, Arguments& arguments) {
  command.add_option("--config,-c", arguments.config, "the recipe, a YAML file")
      ->required()
      ->type_name("FILE");
}

void add_recipe_options(CLI::App& command, Arguments& arguments) {
  add_recipe(command, arguments);
  command.add_flag("--dump-config", arguments.dump_config,
                   "print the whole recipe with the source of each value, then exit");
  command
      .add_option("--disable-pass", arguments.disabled_passes, "disable an optional pass (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("PASS");
}

void add_packing_options(CLI::App& pack, Arguments& arguments) {
  pack.add_option("--out,-o", arguments.out,
                  "the file to write, or a folder for several shards of webdataset")
      ->required()
      ->type_name("FILE|FOLDER");
  make_choice(*pack.add_option("--split", arguments.split, "train or val"), {"train", "val"});
  make_choice(*pack.add_option("--format", arguments.packed_format,
                               "record: one file; webdataset: tar files that the Python package reads, too"),
              {"record", "webdataset"});
  make_count(
      *pack.add_option("--shard-samples", arguments.shard_samples,
                       "most samples of a shard of webdataset; the shards go into the folder --out (default: "
                       "10000)"),
      1, int64_t{1} << 31);
  make_count(*pack.add_option("--resize", arguments.resize,
                              "make the shorter side of each image this long, as transform resize does"),
             1, 1 << 14);
  pack.add_option("--filter", arguments.filters,
                  "apply a transform that is not random, such as median or \"median: 5\" (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("TRANSFORM");
  CLI::Option* quality = pack.add_option("--quality", arguments.quality,
                                         "write changed images as JPEG files of this quality (default: 90)");
  make_count(*quality, 1, 100);
  pack.add_flag("--pixels", arguments.pixels, "write changed images as PNG files, which lose nothing")
      ->excludes(quality);
}

void add_check_command(CLI::App& data, Arguments& arguments) {
  CLI::App* check = data.add_subcommand("check", "find samples that are wrong or twice in the data");
  check->add_option("--config,-c", arguments.config, "the recipe, a YAML file")->type_name("FILE");
  check->add_option("overrides", arguments.overrides, "section.key=value: overrides one key of the recipe")
      ->type_name("KEY=VALUE");
  make_count(
      *check->add_option("--distance", arguments.check.distance,
                         "most of 64 bits in which the hashes of images that look alike differ (default: 8); "
                         "rows of tables are compared for equality only"),
      0, 16);
  check
      ->add_option("--id", arguments.check.id,
                   "of tables: a column whose texts name the rows, in place of FILE:LINE")
      ->type_name("COLUMN");
  make_count(*check->add_option(
                 "--suspects", arguments.check.suspects,
                 "list this many samples whose label is least probable, or whose numbers are farthest "
                 "off, under networks that did not train on them"),
             1, 2147483647);
  check
      ->add_option(
          "--run", arguments.check.runs,
          "the directory of a trained run, whose validation samples are judged; several runs, each with "
          "another validation split, judge all samples (may be repeated); without --config its recipe is "
          "checked")
      ->allow_extra_args(false)
      ->type_name("DIRECTORY");
  check->add_option("--write", arguments.out, "file for data.exclude that names the samples to leave out")
      ->type_name("FILE");
  check->add_flag("--json", arguments.json, "print all that was found as JSON");
}

void add_data_commands(CLI::App& data, Arguments& arguments) {
  data.require_subcommand(1);
  CLI::App* stats =
      data.add_subcommand("stats", "check the recipe's samples; print counts, sizes, mean and deviation");
  add_recipe(*stats, arguments);
  stats->add_flag("--time", arguments.time,
                  "only measure how many training samples one core decodes and augments in a second");
  stats->add_flag("--json", arguments.json, "print the report as JSON");
  add_check_command(data, arguments);
  CLI::App* pack = data.add_subcommand(
      "pack", "copy the samples of a split into a record file, or into tar files of webdataset");
  add_recipe(*pack, arguments);
  add_packing_options(*pack, arguments);
  CLI::App* tokenize =
      data.add_subcommand("tokenize", "write a split's text as shards of tokens, for data.format: tokens");
  add_recipe(*tokenize, arguments);
  tokenize->add_option("--out,-o", arguments.out, "the shard to write, or a folder for several")
      ->required()
      ->type_name("FILE|FOLDER");
  make_choice(*tokenize->add_option("--split", arguments.split, "train or val"), {"train", "val"});
  CLI::Option* shard_tokens = tokenize->add_option(
      "--shard-tokens", arguments.shard_tokens,
      "most tokens of a shard; the shards go into the folder --out (default: 100000000)");
  make_count(*shard_tokens, 1, 2147483647);
}

/// Of `trainer plan`: devices beside each other.
void add_comparison_options(CLI::App& plan, Arguments& arguments) {
  CLI::Option* devices =
      plan.add_option("--devices", arguments.devices,
                      "compare devices by time, energy, cost and memory of the whole run: GPUs as in "
                      "device.model and cpu, with commas between");
  devices->type_name("NAME,...")->excludes("--dump");
  plan.add_option("--price", arguments.prices,
                  "of --devices, for one device and hour, as in h100=2.5,a100=1.2 (may be repeated)")
      ->allow_extra_args(false)
      ->needs(devices)
      ->type_name("NAME=PRICE,...");
  plan.add_option(
          "--measured", arguments.measured,
          "the directory of a run. Of --devices: it has measured cpu, whose speed is not predicted, or "
          "another NAME (may be repeated). Of --ranks: one with --profile")
      ->allow_extra_args(false)
      ->type_name("[NAME=]RUN");
}

/// Of `trainer plan`: numbers of ranks beside each other.
void add_scaling_options(CLI::App& plan, Arguments& arguments) {
  CLI::Option* ranks = plan.add_option("--ranks", arguments.ranks,
                                       "predict the step on these numbers of ranks, with commas between");
  CLI::Option* machine =
      plan.add_option("--machine", arguments.machine,
                      "of --ranks: nodes, devices and links, as a name in configs/machines/ or a .json file");
  ranks->type_name("N,...")->needs(machine)->excludes("--dump")->excludes("--devices");
  machine->type_name("NAME|FILE")->needs(ranks);
  plan.add_flag("--weak", arguments.weak, "of --ranks: the global batch grows with the ranks")->needs(ranks);
  plan.add_flag("--splits", arguments.splits,
                "of --ranks: all ways to divide them that fit into memory, the fastest first")
      ->needs(ranks);
  CLI::Option* speed = plan.add_option(
      "--speed", arguments.speed,
      "of --ranks: samples that one device trains in a second, where neither its rates nor a run tell");
  make_number(*speed->type_name("SAMPLES/S")->needs(ranks), 1e-6, 1e12);
}

void add_time_command(CLI::App& app, Arguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "time", "measure a recipe's speed and that of each layer; needs no data and no weights");
  add_recipe(*command, arguments);
  TimingArguments& wanted = arguments.timing;
  CLI::Option* purpose = command->add_option(
      "--purpose", wanted.purpose,
      "what to time: a training step, a batch of prediction, or a generated token (default: train)");
  make_choice(*purpose, {"train", "predict", "generate"});
  command
      ->add_option("--batch", wanted.batch_text,
                   "batch sizes to time, with commas between, as in 1,32: samples of a training step or of a "
                   "prediction, sequences side by side (default: the recipe's, or one sequence)")
      ->type_name("N,...");
  constexpr int64_t kMostIterations = 1000000;
  make_count(*command->add_option("--iterations", wanted.iterations, "runs to time (default 50)"), 1,
             kMostIterations);
  command->add_flag("--json", arguments.json, "print the report as JSON");
}

void add_init_command(CLI::App& app, Arguments& arguments) {
  CLI::App* init = app.add_subcommand("init", "write a first recipe for the samples in a folder or file");
  init->add_option("path", arguments.path,
                   "folders of images, the files of CIFAR or MNIST, a record file, or a table (CSV or TSV)")
      ->required()
      ->type_name("PATH");
  init->add_option("--output,-o", arguments.out,
                   "the recipe to write (default: the path's name and .yaml in the working directory)")
      ->type_name("FILE");
  init->add_option("--target", arguments.target, "of a table: the column to predict")->type_name("COLUMN");
  CLI::Option* network = init->add_option(
      "--network", arguments.network,
      "an included network, such as resnet18, or a network's file (default: a small network for the "
      "size of the data)");
  network->type_name("NETWORK");
  init->add_option("--weights", arguments.weights,
                   "trained weights of that network, whose head is replaced: a .safetensors file, or the "
                   "directory of a run")
      ->needs(network)
      ->type_name("FILE");
}

void add_import_command(CLI::App& app, Arguments& arguments) {
  CLI::App* weights =
      app.add_subcommand("import", "convert weights of PyTorch or ONNX into a safetensors file");
  weights->add_option("path", arguments.path, "a file by torch.save (.pth, .pt, .bin), or an ONNX model")
      ->required()
      ->type_name("FILE");
  CLI::Option* out = weights->add_option("--out,-o", arguments.out, "the safetensors file to write");
  out->type_name("FILE");
  weights
      ->add_option("--rename", arguments.renames,
                   "give a tensor another name; if OLD ends with a dot, all names that begin with it; one * "
                   "stands for any text (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("OLD=NEW");
  weights->add_flag("--list", arguments.list, "only print names, types, shapes and bytes")->excludes(out);
}

void add_watching_commands(CLI::App& app, Arguments& arguments) {
  CLI::App* inspect =
      app.add_subcommand("inspect", "show and verify a safetensors file, a checkpoint or a run");
  inspect->add_option("path", arguments.path, "the file or the directory")->required()->type_name("FILE");
  inspect->add_flag("--json", arguments.json, "print the report as JSON");
  CLI::App* runs = app.add_subcommand("runs", "list the runs in a directory tree: state, step, best metric");
  runs->add_option("directory", arguments.path, "directory to search (default: runs)")
      ->type_name("DIRECTORY");
  runs->add_flag("--json", arguments.json, "print the list as JSON");
  runs->add_option("--sort", arguments.sort,
                   "sort by a column, such as best or loss, or by a key of the recipes, such as optimizer.lr "
                   "or lr (default: age)")
      ->type_name("KEY");
  CLI::App* compare = runs->add_subcommand("compare", "print the settings and results of runs side by side");
  compare->add_option("runs", arguments.inputs, "two or more runs")
      ->required()
      ->expected(2, -1)
      ->type_name("DIRECTORY");
  compare->add_flag("--all", arguments.all, "print the settings that are the same too");
  compare->add_flag("--json", arguments.json, "print them as JSON");
}

void add_report_commands(CLI::App& app, Arguments& arguments) {
  CLI::App* report = app.add_subcommand(
      "report", "write curves and results of one or several runs, or of a sweep, into one HTML file");
  report
      ->add_option("runs", arguments.inputs,
                   "the directories of runs or of one sweep, or directories that contain runs")
      ->required()
      ->expected(1, -1)
      ->type_name("DIRECTORY");
  report
      ->add_option(
          "--output,-o", arguments.out,
          "the file to write (default: report.html in the directory, or of several in the working directory)")
      ->type_name("FILE");
  CLI::App* watch = app.add_subcommand(
      "watch", "show a run's curves and numbers, or a sweep's trials, in the terminal while it trains");
  watch->add_option("run", arguments.path, "the directory of the run or of the sweep")
      ->required()
      ->type_name("DIRECTORY");
}

void add_track_command(CLI::App& app, Arguments& arguments) {
  CLI::App* track = app.add_subcommand(
      "track", "send what an MLflow server does not have of a run yet; write what `wandb sync` sends");
  track->add_option("run", arguments.path, "the directory of the run")->required()->type_name("DIRECTORY");
  track
      ->add_option("overrides", arguments.overrides,
                   "logging.mlflow.uri=ADDRESS, logging.mlflow.experiment=NAME: in place of the recipe's")
      ->type_name("KEY=VALUE");
}

void add_shell_commands(CLI::App& app, Arguments& arguments) {
  CLI::App* completion =
      app.add_subcommand("completion", "print a script that completes trainer's commands in a shell");
  CLI::Option* shell = completion->add_option(
      "shell", arguments.completed,
      "the shell; `words` prints the completions of a command line, whose words follow `--`");
  make_choice(*shell, {"bash", "zsh", "fish", "words"});
  shell->required();
  completion->add_option("words", arguments.inputs, "of the command line to complete")->type_name("WORD");
  app.add_subcommand("man", "print the manual page: trainer man | man -l -");
}

/// Adds to the help of a command and of its subcommands.
void add_notes(CLI::App& command, const std::string& path) {
  command.footer(notes_of(path));
  for (CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
    add_notes(*below, path.empty() ? below->get_name() : path + " " + below->get_name());
}

/// A mistake in the words of the command that was called, and where its help is. Words that it does not know
/// may be keys of a recipe.
[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& wrong) {
  const CLI::App* called = &app;
  std::string words = "trainer";
  while (!called->get_subcommands().empty()) {
    called = called->get_subcommands().front();
    words += " " + called->get_name();
  }
  const std::vector<std::string> unknown = app.remaining(true);
  const bool takes_recipe = called->get_option_no_throw("--config") != nullptr;
  const std::string key = takes_recipe && !unknown.empty() ? key_of_option(unknown[0]) : "";
  throw Error(ExitCode::usage, fmt::format("{}{}; see `{} --help`", wrong.what(), key, words));
}

}  // namespace

void add_recipe(CLI::App& command, Arguments& arguments) {
  add_config(command, arguments);
  command.add_option("overrides", arguments.overrides, "section.key=value: overrides one key of the recipe")
      ->type_name("KEY=VALUE");
}

void declare_commands(CLI::App& app, Arguments& arguments) {
  app.name("trainer");
  app.description("Trains neural networks from a YAML recipe.");
  app.set_version_flag("--version", std::string("trainer ") + kVersion);
  app.require_subcommand(1);

  CLI::App* train = app.add_subcommand("train", "train the recipe's network; resumes a run that was stopped");
  add_recipe_options(*train, arguments);
  make_count(*train->add_option(
      "--profile", arguments.profiled_steps,
      "time each operation of N steps, from the third on; writes trace.json for chrome://tracing"));
  add_init_command(app, arguments);
  add_eval_command(app, arguments);
  add_predict_command(app, arguments);
  add_generate_command(app, arguments);
  add_export_command(app, arguments);
  add_quantize_command(app, arguments);
  add_prune_command(app, arguments);
  CLI::App* plan = app.add_subcommand("plan", "print layers, work and memory of a run; needs no data");
  add_recipe_options(*plan, arguments);
  plan->add_option("--dump", arguments.dump,
                   "print `program`, `program:after=PASS` (`loss`: the forward part alone) or `plan` (each "
                   "operation's implementation and layouts)")
      ->type_name("program|program:after=PASS|plan");
  add_comparison_options(*plan, arguments);
  add_scaling_options(*plan, arguments);
  CLI::Option* rate = plan->add_option(
      "--decode-rate", arguments.decode_rate,
      "samples that one core decodes and augments in a second, as `data stats --time` measures: "
      "print how many cores a GPU needs");
  make_number(*rate->type_name("SAMPLES/S"), 1e-6, 1e12);
  plan->add_flag("--json", arguments.json, "print the report as JSON");
  add_time_command(app, arguments);
  add_tune_commands(app, arguments);
  add_sweep_command(app, arguments);
  add_slurm_command(app, arguments);
  CLI::App* layers = app.add_subcommand(
      "layers", "list all layers, losses, optimisers, schedules and transforms with their parameters");
  layers->add_option("name", arguments.path, "one of them, such as conv2d: print only this one")
      ->type_name("NAME");
  CLI::App* schema = app.add_subcommand("schema", "print a JSON Schema of recipes, for editors");
  CLI::Option* markdown =
      schema->add_flag("--markdown", arguments.markdown, "print a reference of all keys instead");
  schema->add_flag("--metrics", arguments.metrics, "print a reference of the keys of metrics.jsonl instead")
      ->excludes(markdown);

  CLI::App* doctor = app.add_subcommand(
      "doctor", "show this machine's processor, memory, GPUs and libraries, and what could be mended");
  doctor->add_flag("--json", arguments.json, "print JSON");
  doctor->add_flag("--strict", arguments.strict,
                   "exit with 69 if a finding costs more than 10 % of the speed");
  CLI::Option* describe =
      doctor->add_option("--device-json", arguments.out,
                         "write a description of the first GPU to this file, for planning on other machines");
  describe->type_name("FILE");
  doctor
      ->add_option(
          "--read", arguments.path,
          "also measure how fast this folder or file is read, and its images decoded (takes seconds)")
      ->excludes(describe)
      ->type_name("PATH");
  doctor
      ->add_option("--links", arguments.links,
                   "among ranks that a launcher has started: measure their links, and write a machine for "
                   "`plan --machine` to this file (takes seconds)")
      ->excludes(describe)
      ->type_name("FILE");

  CLI::App* data = app.add_subcommand("data", "check, pack or tokenize a recipe's samples");
  add_data_commands(*data, arguments);

  add_import_command(app, arguments);
  add_watching_commands(app, arguments);
  add_report_commands(app, arguments);
  add_track_command(app, arguments);
  add_shell_commands(app, arguments);
  add_notes(app, "");
}

std::optional<Arguments> read_arguments(int argc, const char* const* argv) {
  // CLI11 copies text in functions declared noexcept. Its help uses streams, which stop when memory runs out.
  const MemoryReserve reserve(kMemoryOfWords);
  Arguments arguments;
  std::error_code unknown;
  arguments.command_line = {std::filesystem::read_symlink("/proc/self/exe", unknown).string()};
  for (int i = 1; i < argc; ++i) arguments.command_line.emplace_back(argv[i]);
  CLI::App app;
  declare_commands(app, arguments);
  std::vector<std::string> words = with_command(argc, argv);
  std::reverse(words.begin(), words.end());  // in CLI11's order
  try {
    app.parse(words);
  } catch (const CLI::Success& asked) {
    std::ostringstream text, nothing;
    app.exit(asked, text, nothing);
    reserve.require_untouched();
    print_to_output(text.str());
    return std::nullopt;
  } catch (const CLI::ParseError& wrong) {
    refuse(app, wrong);
  }
  reserve.require_untouched();
  if (app.got_subcommand("init")) arguments.command = Arguments::Command::init;
  if (app.got_subcommand("eval")) {
    arguments.command = Arguments::Command::eval;
    finish_without_inputs(*app.get_subcommand("eval"), arguments);
  }
  if (app.got_subcommand("predict")) {
    arguments.command = Arguments::Command::predict;
    finish_predict(*app.get_subcommand("predict"), arguments);
  }
  if (app.got_subcommand("generate")) {
    arguments.command = Arguments::Command::generate;
    finish_without_inputs(*app.get_subcommand("generate"), arguments);
  }
  if (app.got_subcommand("export")) {
    arguments.command = Arguments::Command::export_network;
    finish_without_inputs(*app.get_subcommand("export"), arguments);
  }
  if (app.got_subcommand("quantize")) {
    arguments.command = Arguments::Command::quantize;
    finish_quantize(*app.get_subcommand("quantize"), arguments);
  }
  if (app.got_subcommand("prune")) {
    arguments.command = Arguments::Command::prune;
    finish_without_inputs(*app.get_subcommand("prune"), arguments);
  }
  if (app.got_subcommand("plan")) arguments.command = Arguments::Command::plan;
  if (app.got_subcommand("time")) {
    arguments.command = Arguments::Command::time;
    if (app.get_subcommand("time")->count("--batch") > 0)
      arguments.timing.batches = parse_counts("--batch", arguments.timing.batch_text, kMostBatch);
  }
  if (app.got_subcommand("tune")) finish_tune(*app.get_subcommand("tune"), arguments);
  if (app.got_subcommand("sweep")) arguments.command = Arguments::Command::sweep;
  if (app.got_subcommand("slurm")) arguments.command = Arguments::Command::slurm;
  if (app.got_subcommand("layers")) arguments.command = Arguments::Command::layers;
  if (app.get_subcommand("data")->got_subcommand("stats")) arguments.command = Arguments::Command::data_stats;
  if (app.get_subcommand("data")->got_subcommand("check")) arguments.command = Arguments::Command::data_check;
  if (app.get_subcommand("data")->got_subcommand("pack")) arguments.command = Arguments::Command::data_pack;
  if (app.get_subcommand("data")->got_subcommand("tokenize"))
    arguments.command = Arguments::Command::data_tokenize;
  if (app.got_subcommand("schema")) arguments.command = Arguments::Command::schema;
  if (app.got_subcommand("doctor")) arguments.command = Arguments::Command::doctor;
  if (app.got_subcommand("import")) arguments.command = Arguments::Command::import_weights;
  if (app.got_subcommand("inspect")) arguments.command = Arguments::Command::inspect;
  if (app.got_subcommand("runs")) {
    const bool compares = app.get_subcommand("runs")->got_subcommand("compare");
    arguments.command = compares ? Arguments::Command::compare : Arguments::Command::runs;
  }
  if (app.got_subcommand("report")) arguments.command = Arguments::Command::report;
  if (app.got_subcommand("watch")) arguments.command = Arguments::Command::watch;
  if (app.got_subcommand("track")) arguments.command = Arguments::Command::track;
  if (app.got_subcommand("completion")) arguments.command = Arguments::Command::completion;
  if (app.got_subcommand("man")) arguments.command = Arguments::Command::man;
  return arguments;
}

}  // namespace trainer
