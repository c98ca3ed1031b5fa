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
#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/base/memory_reserve.h"
#include "core/base/version.h"
#include "core/config/messages.h"
#include "core/config/other_names.h"

namespace trainer {
namespace {

/// For parsing a command line, or for its help.
constexpr size_t kMemoryOfWords = size_t{1} << 18;

const std::vector<std::string>& commands() {
  static const std::vector<std::string> names = {
      "train",  "init",   "eval",    "predict", "generate", "plan",  "layers",     "data",
      "schema", "doctor", "inspect", "runs",    "report",   "watch", "completion", "man"};
  return names;
}

[[noreturn]] void throw_unknown(const std::string& command) {
  std::error_code unknown;
  const auto status = std::filesystem::status(command, unknown);
  std::string answer = suggestion(command, commands());
  if (std::filesystem::is_directory(status))
    answer =
        fmt::format("; `trainer init {}` writes a recipe for the samples in that folder", shown(command));
  else if (std::filesystem::is_regular_file(status))
    answer = fmt::format("; if that file is a recipe: `trainer --config {}`", shown(command));
  throw Error(ExitCode::usage, fmt::format("unknown command '{}'{}", shown(command), answer));
}

/// How a key is written that stands as an option, such as `--lr`; else nothing.
std::string key_of_option(const std::string& word) {
  if (!word.starts_with("--")) return "";
  std::string key = word.substr(2, word.find('=') - 2);
  std::ranges::replace(key, '-', '_');
  const OtherName* known = find_other_name(key);
  if (known == nullptr) return "; keys of the recipe are written without dashes, such as optimizer.lr=0.1";
  const std::string example = *known->example == '\0' ? "..." : known->example;
  return fmt::format("; write the recipe's key, {}={}", known->ours, example);
}

/// Whether a word without an option is the recipe.
bool is_recipe(const std::string& word) {
  const bool is_plain = !word.starts_with("-") && word.find('=') == std::string::npos;
  std::error_code ignored;
  if (std::filesystem::is_directory(word, ignored)) return false;  // of a run
  return is_plain && (word.ends_with(".yaml") || word.ends_with(".yml"));
}

/// `trainer --config F` means `trainer train --config F`, and so does `trainer F`. An unknown command is
/// reported with the nearest one.
std::vector<std::string> with_command(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words == std::vector<std::string>{"help"}) return {"--help"};
  if (words[0] == "version" || words[0] == "-v" || words[0] == "-V") return {"--version"};
  if (words[0] == "help") {  // trainer help plan
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "--version") return words;
  const bool has_command = std::find(commands().begin(), commands().end(), words[0]) != commands().end();
  if (!has_command &&
      (words[0].starts_with("-") || words[0].find('=') != std::string::npos || is_recipe(words[0]))) {
    words.insert(words.begin(), "train");
  } else if (!has_command) {
    throw_unknown(words[0]);
  }
  // Only the word after the command: later ones may belong to an option.
  const size_t place = words[0] == "data" ? 2 : 1;
  const bool takes_recipe = words[0] != "init" && words[0] != "inspect" && words[0] != "runs" &&
                            words[0] != "report" && words[0] != "watch" && words[0] != "completion";
  if (takes_recipe && words.size() > place && is_recipe(words[place]))
    words.insert(words.begin() + static_cast<int64_t>(place), "--config");
  return words;
}
// The help, the manual page and shells show an option's type. Shells complete FILE, DIRECTORY and KEY=VALUE
// (completion.cpp); lower-case text is the value itself.

void add_config(CLI::App& command, Arguments& arguments) {
  command.add_option("--config,-c", arguments.config, "the recipe, a YAML file")
      ->required()
      ->type_name("FILE");
}

void add_recipe(CLI::App& command, Arguments& arguments) {
  add_config(command, arguments);
  command.add_option("overrides", arguments.overrides, "section.key=value: overrides one key of the recipe")
      ->type_name("KEY=VALUE");
}

/// The run or the recipe of a trained network, and its weights. Words that are no options are sorted by
/// finish_trained().
void add_trained(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--config,-c", arguments.config,
                  "the recipe, a YAML file, of whose own run the weights are")
      ->type_name("FILE");
  command
      .add_option(
          "--weights", arguments.weights,
          "weights to use: a run's directory, a checkpoint or a .safetensors file (default: the run's "
          "best, else its last)")
      ->type_name("FILE");
  CLI::Option* trained =
      command.add_flag("--as-trained", arguments.as_trained,
                       "use the transforms that the weights were trained with, not the recipe's");
  command
      .add_flag(
          "--as-written", arguments.as_written,
          "use the recipe's transforms, classes and tokenizer though the weights were trained with others")
      ->excludes(trained);
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

/// A number from 1 on.
void make_count(CLI::Option& option) {
  option.check(CLI::PositiveNumber.description(""))->type_name("N");
}

/// One of these names.
void make_choice(CLI::Option& option, const std::vector<std::string>& names) {
  option.check(CLI::IsMember(names).description(""))->type_name(fmt::format("{}", fmt::join(names, "|")));
}

void add_data_commands(CLI::App& data, Arguments& arguments) {
  data.require_subcommand(1);
  CLI::App* stats =
      data.add_subcommand("stats", "check the recipe's samples; print counts, sizes, mean and deviation");
  add_recipe(*stats, arguments);
  stats->add_flag("--json", arguments.json, "print the report as JSON");
  CLI::App* pack =
      data.add_subcommand("pack", "copy the samples of a split into one file, for data.format: record");
  add_recipe(*pack, arguments);
  pack->add_option("--out,-o", arguments.out, "file to write")->required()->type_name("FILE");
  make_choice(*pack->add_option("--split", arguments.split, "train or val"), {"train", "val"});
  CLI::App* tokenize =
      data.add_subcommand("tokenize", "write a split's text as shards of tokens, for data.format: tokens");
  add_recipe(*tokenize, arguments);
  tokenize->add_option("--out,-o", arguments.out, "the shard to write, or a folder for several")
      ->required()
      ->type_name("FILE|FOLDER");
  make_choice(*tokenize->add_option("--split", arguments.split, "train or val"), {"train", "val"});
  tokenize
      ->add_option("--shard-tokens", arguments.shard_tokens,
                   "most tokens of a shard; the shards go into the folder --out (default: 100000000)")
      ->check(CLI::Range(int64_t{1}, int64_t{2147483647}).description(""))
      ->type_name("N");
}

void add_init_command(CLI::App& app, Arguments& arguments) {
  CLI::App* init = app.add_subcommand("init", "write a first recipe for the samples in a folder or file");
  init->add_option("path", arguments.path, "folders of images, the files of CIFAR or MNIST, or a record file")
      ->required()
      ->type_name("PATH");
  init->add_option("--output,-o", arguments.out,
                   "the recipe to write (default: the path's name and .yaml in the working directory)")
      ->type_name("FILE");
  CLI::Option* network = init->add_option(
      "--network", arguments.network,
      "a network that comes with the program, such as resnet18, or a network's file (default: "
      "a small one that fits the data)");
  network->type_name("NETWORK");
  init->add_option("--weights", arguments.weights,
                   "trained weights of that network, whose head is replaced: a .safetensors file, or the "
                   "directory of a run")
      ->needs(network)
      ->type_name("FILE");
}

void add_eval_command(CLI::App& app, Arguments& arguments) {
  CLI::App* eval = app.add_subcommand("eval", "evaluate a run's weights on its data.val");
  add_trained(*eval, arguments);
  eval->add_option("words", arguments.inputs,
                   "a run's directory; section.key=value overrides a key of its recipe")
      ->type_name("DIRECTORY|KEY=VALUE");
  eval->add_flag("--json", arguments.json, "print one JSON object instead");
}

void add_prediction_results(CLI::App& predict, PredictArguments& wanted) {
  CLI::Option* format =
      predict.add_option("--format", wanted.format, "form of the output")->default_str("jsonl");
  make_choice(*format, {"jsonl", "csv", "table"});
  CLI::Option* tta = predict.add_option(
      "--tta", wanted.tta,
      "test-time augmentation: average the probabilities of each image and of its mirror image");
  make_choice(*tta, {"flip"});
  predict.add_flag(
      "--errors-only", wanted.errors_only,
      "print misclassified samples only, the most certain first; needs labels, from the recipe's "
      "data or from folders named by the classes");
  predict
      .add_option("--gallery", wanted.gallery,
                  "write an HTML file with the images, their predictions and labels, errors first; without "
                  "--format or --output no lines are printed")
      ->type_name("FILE");
  predict
      .add_option(
          "--images", wanted.images,
          "write PNG files into this folder: an autoencoder's reconstructions (a new or empty folder) "
          "or, with a class for each pixel, masks and overlays in the images' sizes")
      ->type_name("DIRECTORY");
}

void add_predict_command(CLI::App& app, Arguments& arguments) {
  CLI::App* predict = app.add_subcommand(
      "predict", "apply a run's network to images: classes, labels, masks, reconstructions");
  add_trained(*predict, arguments);
  predict
      ->add_option("words", arguments.inputs,
                   "a run's directory (without --config), then images and folders of images; "
                   "section.key=value overrides a key of the recipe")
      ->type_name("FILE|KEY=VALUE");
  CLI::Option* split =
      predict
          ->add_option("--split", arguments.split,
                       "without images: the split of the recipe's data to classify, train or val")
          ->default_str("val");
  make_choice(*split, {"train", "val"});
  CLI::Option* top = predict->add_option(
      "--top", arguments.top, "classes to print (default: 5; with binary_cross_entropy or of pixels all)");
  make_count(*top);
  predict->add_flag("--all", arguments.all, "print the probability of every class, in class order")
      ->excludes(top);
  predict->add_option("--output,-o", arguments.out, "file to write (default: standard output)")
      ->type_name("FILE");
  add_prediction_results(*predict, arguments.predict);
}

/// A number within bounds. CLI11's own checks accept "nan", which no comparison excludes.
void make_number(CLI::Option& option, double least, double most) {
  option.check(CLI::Validator(
      [](std::string& text) {
        const bool is_nan = text.find_first_of("nN") != std::string::npos;
        return is_nan ? fmt::format("Value {} is not a number", text) : std::string();
      },
      ""));
  option.check(CLI::Range(least, most).description(""));
}

void add_sampling(CLI::App& generate, GenerateArguments& wanted) {
  CLI::Option* temperature = generate.add_option(
      "--temperature", wanted.temperature, "divides the logits; 0 takes the likeliest token (default 1)");
  make_number(*temperature->type_name("T"), 0, 1e6);
  make_count(*generate.add_option("--top-k", wanted.top_k, "draw from the K likeliest tokens only"));
  CLI::Option* top_p =
      generate.add_option("--top-p", wanted.top_p,
                          "draw from the fewest tokens whose probabilities add up to P (nucleus sampling)");
  make_number(*top_p->type_name("P"), 0, 1);
  generate.add_option("--seed", wanted.seed, "seed of the draws (default 0)")
      ->check(CLI::NonNegativeNumber.description(""))
      ->type_name("N");
}

void add_generate_command(CLI::App& app, Arguments& arguments) {
  CLI::App* generate = app.add_subcommand("generate", "continue a text with a trained network of tokens");
  add_trained(*generate, arguments);
  generate
      ->add_option("words", arguments.inputs,
                   "a run's directory; section.key=value overrides a key of its recipe")
      ->type_name("DIRECTORY|KEY=VALUE");
  GenerateArguments& wanted = arguments.generate;
  CLI::Option* prompt = generate->add_option("--prompt", wanted.prompt, "the text to continue");
  prompt->type_name("TEXT");
  generate->add_option("--prompts", wanted.prompts, "file with a prompt in each line (JSON Lines output)")
      ->excludes(prompt)
      ->type_name("FILE");
  make_count(*generate->add_option("--tokens", wanted.tokens, "tokens to generate at most (default 100)"));
  constexpr int64_t kMostSamples = int64_t{1} << 20;
  CLI::Option* samples =
      generate->add_option("--samples", wanted.samples, "continuations of each prompt (default 1)");
  make_count(*samples);
  samples->check(CLI::Range(int64_t{1}, kMostSamples).description(""));
  add_sampling(*generate, wanted);
  generate->add_flag("--keep-going", wanted.keep_going, "do not stop at the token that ends a text");
  generate->add_flag("--json", wanted.json, "print a JSON object for each sample");
}

/// Whether a word overrides a key of the recipe: only characters of keys precede its first '='.
bool is_override(const std::string& word) {
  const size_t end = word.find('=');
  if (end == 0 || end == std::string::npos) return false;
  return word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.[]") == end;
}

/// Sorts the words of a command that uses a trained network: overrides, the run unless there is a recipe, and
/// the rest.
void finish_trained(const CLI::App& command, Arguments& arguments) {
  std::vector<std::string> words;
  words.swap(arguments.inputs);
  for (std::string& word : words) {
    if (is_override(word)) {
      arguments.overrides.push_back(std::move(word));
    } else if (arguments.config.empty() && arguments.run.empty()) {
      arguments.run = std::move(word);
    } else {
      arguments.inputs.push_back(std::move(word));
    }
  }
  if (!arguments.config.empty() || !arguments.run.empty()) return;
  throw Error(ExitCode::usage, fmt::format("{0} needs a run's directory, or a recipe with --config; see "
                                           "`trainer {0} --help`",
                                           command.get_name()));
}

/// For commands that take no other words; the recipe refuses them as overrides.
void finish_without_inputs(const CLI::App& command, Arguments& arguments) {
  finish_trained(command, arguments);
  std::ranges::move(arguments.inputs, std::back_inserter(arguments.overrides));
  arguments.inputs.clear();
}

/// Gives the split of `predict` the value that it has without a word.
void finish_predict(const CLI::App& predict, Arguments& arguments) {
  finish_trained(predict, arguments);
  arguments.predict.has_format = predict.count("--format") > 0;
  if (predict.count("--split") == 0) {
    arguments.split = "val";
  } else if (!arguments.inputs.empty()) {
    throw Error(ExitCode::usage,
                fmt::format("predict takes images ('{}') or --split, not both", arguments.inputs[0]));
  }
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
      "report", "write curves, results and recipe of one or several runs into one HTML file");
  report->add_option("runs", arguments.inputs, "the runs' directories, or directories that contain runs")
      ->required()
      ->expected(1, -1)
      ->type_name("DIRECTORY");
  report
      ->add_option(
          "--output,-o", arguments.out,
          "the file to write (default: report.html in the directory, or of several in the working directory)")
      ->type_name("FILE");
  CLI::App* watch =
      app.add_subcommand("watch", "show a run's curves and numbers in the terminal while it trains");
  watch->add_option("run", arguments.path, "the run's directory")->required()->type_name("DIRECTORY");
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

/// The words that lead to the help of the command that was called.
std::string words_of_help(const CLI::App& app) {
  std::string words = "trainer";
  for (const CLI::App* called = &app; !called->get_subcommands().empty();) {
    called = called->get_subcommands().front();
    words += " " + called->get_name();
  }
  return words + " --help";
}

}  // namespace

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
  CLI::App* plan = app.add_subcommand("plan", "print layers, work and memory of a run; needs no data");
  add_recipe_options(*plan, arguments);
  plan->add_option("--dump", arguments.dump,
                   "print `program`, `program:after=PASS` (`loss`: the forward part alone) or `plan` (each "
                   "operation's implementation and layouts)")
      ->type_name("program|program:after=PASS|plan");
  plan->add_option("--devices", arguments.devices,
                   "compare GPUs by predicted time and memory: names as in device.model, with commas between")
      ->type_name("NAME,...")
      ->excludes("--dump");
  plan->add_flag("--json", arguments.json, "print the report as JSON");
  CLI::App* layers = app.add_subcommand(
      "layers", "list all layers, losses, optimisers, schedules and transforms with their parameters");
  layers->add_option("name", arguments.path, "one of them, such as conv2d: print only this one")
      ->type_name("NAME");
  CLI::App* schema = app.add_subcommand("schema", "print a JSON Schema of recipes, for editors");
  schema->add_flag("--markdown", arguments.markdown, "print a reference of all keys instead");

  CLI::App* doctor =
      app.add_subcommand("doctor", "show this machine's processor, memory, GPUs and libraries");
  doctor
      ->add_option("--device-json", arguments.out,
                   "write a description of the first GPU to this file, for planning on other machines")
      ->type_name("FILE");

  CLI::App* data = app.add_subcommand("data", "check, pack or tokenize a recipe's samples");
  add_data_commands(*data, arguments);

  add_watching_commands(app, arguments);
  add_report_commands(app, arguments);
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
  } catch (const CLI::ExtrasError& wrong) {
    const std::vector<std::string> extras = app.remaining(true);
    const std::string key = extras.empty() ? "" : key_of_option(extras[0]);
    throw Error(ExitCode::usage,
                fmt::format("{}{}", wrong.what(), key.empty() ? "; see `" + words_of_help(app) + "`" : key));
  } catch (const CLI::ParseError& wrong) {
    throw Error(ExitCode::usage, fmt::format("{}; see `{}`", wrong.what(), words_of_help(app)));
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
  if (app.got_subcommand("plan")) arguments.command = Arguments::Command::plan;
  if (app.got_subcommand("layers")) arguments.command = Arguments::Command::layers;
  if (app.get_subcommand("data")->got_subcommand("stats")) arguments.command = Arguments::Command::data_stats;
  if (app.get_subcommand("data")->got_subcommand("pack")) arguments.command = Arguments::Command::data_pack;
  if (app.get_subcommand("data")->got_subcommand("tokenize"))
    arguments.command = Arguments::Command::data_tokenize;
  if (app.got_subcommand("schema")) arguments.command = Arguments::Command::schema;
  if (app.got_subcommand("doctor")) arguments.command = Arguments::Command::doctor;
  if (app.got_subcommand("inspect")) arguments.command = Arguments::Command::inspect;
  if (app.got_subcommand("runs")) {
    const bool compares = app.get_subcommand("runs")->got_subcommand("compare");
    arguments.command = compares ? Arguments::Command::compare : Arguments::Command::runs;
  }
  if (app.got_subcommand("report")) arguments.command = Arguments::Command::report;
  if (app.got_subcommand("watch")) arguments.command = Arguments::Command::watch;
  if (app.got_subcommand("completion")) arguments.command = Arguments::Command::completion;
  if (app.got_subcommand("man")) arguments.command = Arguments::Command::man;
  return arguments;
}

}  // namespace trainer
