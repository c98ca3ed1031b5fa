// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/trained_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <utility>

#include "apps/trainer/option_values.h"
#include "core/base/error.h"
#include "core/base/shape.h"
#include "core/quantization/ranges.h"

namespace trainer {
namespace {

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

/// A trained network, named by its run or its recipe, and overrides of the recipe's keys.
void add_run(CLI::App& command, Arguments& arguments) {
  add_trained(command, arguments);
  command
      .add_option("words", arguments.inputs,
                  "a run's directory; section.key=value overrides a key of its recipe")
      ->type_name("DIRECTORY|KEY=VALUE");
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

void add_prediction_of_tables(CLI::App& predict, PredictArguments& wanted) {
  predict
      .add_option("--id", wanted.id, "of tables: a column whose values are printed beside the predictions")
      ->type_name("COLUMN");
}

void add_prediction_batches(CLI::App& predict, PredictArguments& wanted) {
  make_count(
      *predict.add_option("--batch", wanted.batch,
                          "images computed at once (default: as in the run's evaluation, whose bits it "
                          "repeats)"),
      1, kMostBatch);
  predict
      .add_option("--part", wanted.part_text,
                  "predict the I-th of N parts of the images, counted from 1: in a job array of Slurm with "
                  "--array=1-8, $SLURM_ARRAY_TASK_ID/8")
      ->type_name("I/N");
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
  make_count(*generate.add_option("--seed", wanted.seed, "seed of the draws (default 0)"), 0);
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

/// Refuses what cannot go with paths that are answered as they come.
void check_arriving(const Arguments& arguments) {
  const PredictArguments& wanted = arguments.predict;
  const auto refuse = [](const std::string& option, const std::string& why) {
    throw Error(ExitCode::usage, fmt::format("- reads paths from the standard input, so {} {}", option, why));
  };
  if (arguments.inputs != std::vector<std::string>{"-"})
    refuse("other images", "cannot be named beside it; a file of that name is ./-");
  if (!arguments.out.empty()) refuse("--output", "has to be left out: answers go to the standard output");
  if (!wanted.part_text.empty()) refuse("--part", "has no list to divide; divide the lines");
  if (wanted.errors_only) refuse("--errors-only", "has no end to sort errors at; name the images");
  if (!wanted.gallery.empty()) refuse("--gallery", "has no end to be written at; name the images");
  if (!wanted.images.empty()) refuse("--images", "has no list to name files after; name the images");
}

}  // namespace

void add_eval_command(CLI::App& app, Arguments& arguments) {
  CLI::App* eval = app.add_subcommand("eval", "evaluate a run's weights on its data.val");
  add_run(*eval, arguments);
  eval->add_flag("--json", arguments.json, "print one JSON object instead");
}

void add_predict_command(CLI::App& app, Arguments& arguments) {
  CLI::App* predict = app.add_subcommand(
      "predict",
      "apply a run's network to images or tables: classes, labels, numbers, masks, reconstructions");
  add_trained(*predict, arguments);
  predict
      ->add_option(
          "words", arguments.inputs,
          "a run's directory (without --config), then images and folders of images, tables, or - to read "
          "paths of images from the standard input, a path in each line; "
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
  add_prediction_of_tables(*predict, arguments.predict);
  add_prediction_batches(*predict, arguments.predict);
}

void add_generate_command(CLI::App& app, Arguments& arguments) {
  CLI::App* generate = app.add_subcommand("generate", "continue a text with a trained network of tokens");
  add_run(*generate, arguments);
  GenerateArguments& wanted = arguments.generate;
  CLI::Option* prompt = generate->add_option("--prompt", wanted.prompt, "the text to continue");
  prompt->type_name("TEXT");
  generate->add_option("--prompts", wanted.prompts, "file with a prompt in each line (JSON Lines output)")
      ->excludes(prompt)
      ->type_name("FILE");
  make_count(*generate->add_option("--tokens", wanted.tokens, "tokens to generate at most (default 100)"));
  constexpr int64_t kMostSamples = int64_t{1} << 20;
  make_count(*generate->add_option("--samples", wanted.samples, "continuations of each prompt (default 1)"),
             1, kMostSamples);
  add_sampling(*generate, wanted);
  generate->add_flag("--keep-going", wanted.keep_going, "do not stop at the token that ends a text");
  generate->add_flag("--json", wanted.json, "print a JSON object for each sample");
}

void add_export_command(CLI::App& app, Arguments& arguments) {
  ExportArguments& wanted = arguments.exported;
  CLI::App* command =
      app.add_subcommand("export", "write a trained network as a file that other programs run (ONNX)");
  add_run(*command, arguments);
  command->add_option("--out,-o", arguments.out, "the model to write, *.onnx")->required()->type_name("FILE");
  make_choice(*command->add_option("--opset", wanted.opset,
                                   "version of ONNX's operators: 17, which all tools read (default), or 23, "
                                   "which has attention, rotary and RMS norm as one node each"),
              {"17", "23"});
  command
      ->add_option("--batch", wanted.batch,
                   "samples of a call: any (default), or a number that is fixed in the file")
      ->type_name("any|N");
  make_count(
      *command->add_option("--length", wanted.length,
                           "tokens of a sequence, which are fixed in the file (default: the recipe's)"));
  make_choice(*command->add_option("--input", wanted.input,
                                   "what the network reads of images: numbers after the recipe's transforms "
                                   "(default), or their bytes"),
              {"numbers", "bytes"});
  make_choice(
      *command->add_option("--output", wanted.output, "the output: logits (default) or probabilities"),
      {"logits", "probabilities"});
  make_choice(*command->add_option(
                  "--dialect", wanted.dialect,
                  "write the quantisation of a network in 8 bits, with QuantizeLinear and DequantizeLinear "
                  "(qdq) or with Quant of QONNX (qonnx); default: write its values in f32"),
              {"qdq", "qonnx"});
  make_choice(*command->add_option("--for", wanted.reader,
                                   "the program that reads the file, if it takes a part of ONNX only"),
              {"hls4ml"});
}

void add_quantize_command(CLI::App& app, Arguments& arguments) {
  QuantizeArguments& wanted = arguments.quantize;
  CLI::App* command = app.add_subcommand(
      "quantize", "write a trained network with products in 8 bits, for prediction on CPUs");
  add_run(*command, arguments);
  command->add_option("--out,-o", arguments.out, "the file to write, *.safetensors")
      ->required()
      ->type_name("FILE");
  make_choice(*command
                   ->add_option("--method", wanted.method,
                                "what bounds the range of activations: all values (min_max), all but 0.01 % "
                                "(percentile), or the least loss of information (entropy)")
                   ->default_str("percentile"),
              range_method_names());
  make_count(*command->add_option("--samples", wanted.samples,
                                  "samples of data.train to observe, drawn at random (default 512)"));
  command
      ->add_option("--except", wanted.except,
                   "keep products in f32 whose weights have these names, such as 'layer4.*' or 'fc.weight'")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  command->add_flag("--all", wanted.all, "in 8 bits also what is not faster there");
  make_choice(*command->add_option("--weight-bits", wanted.weight_bits,
                                   "bits of a weight: 7 (default), or 8, whose sums overflow on processors "
                                   "without VNNI"),
              {"7", "8"});
}

void add_prune_command(CLI::App& app, Arguments& arguments) {
  PruneArguments& wanted = arguments.prune;
  CLI::App* command = app.add_subcommand(
      "prune", "remove a trained network's least important channels; write the smaller recipe and weights");
  add_run(*command, arguments);
  command->add_option("--out,-o", arguments.out, "the directory to write, absent or empty")
      ->required()
      ->type_name("DIRECTORY");
  CLI::Option* keep = command->add_option(
      "--keep", wanted.keep, "the share of each group of coupled channels to keep, above 0 and up to 1");
  make_number(*keep->required()->type_name("SHARE"), 0, 1);
  make_choice(*command->add_option("--by", wanted.by,
                                   "a channel's importance: l1, the absolute weights that make it (default), "
                                   "or gamma, its factors in batch normalisations"),
              {"l1", "gamma"});
  make_count(*command->add_option("--multiple", wanted.multiple,
                                  "round the number of channels up to a multiple of this (default 8)"),
             1, kMaxDimension);
  command
      ->add_option("--except", wanted.except,
                   "keep the channels of layers, or of parameters, of this name; * matches any text, ? one "
                   "character (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
}

void finish_without_inputs(const CLI::App& command, Arguments& arguments) {
  finish_trained(command, arguments);
  std::ranges::move(arguments.inputs, std::back_inserter(arguments.overrides));
  arguments.inputs.clear();
}

void finish_quantize(const CLI::App& command, Arguments& arguments) {
  finish_without_inputs(command, arguments);
  for (const char* option : {"--method", "--samples", "--weight-bits"}) {
    if (command.count(option) > 0) arguments.quantize.asks_ranges = true;
  }
}

void finish_predict(const CLI::App& predict, Arguments& arguments) {
  finish_trained(predict, arguments);
  arguments.predict.has_format = predict.count("--format") > 0;
  arguments.predict.reads_paths = std::ranges::find(arguments.inputs, "-") != arguments.inputs.end();
  if (predict.count("--part") > 0) arguments.predict.part = parse_part(arguments.predict.part_text);
  if (std::ranges::find(arguments.inputs, "") != arguments.inputs.end())
    throw Error(ExitCode::usage,
                "predict: the name of an image is empty; is a variable of the shell not set?");
  if (arguments.predict.reads_paths) check_arriving(arguments);
  if (predict.count("--split") == 0) {
    arguments.split = "val";
  } else if (!arguments.inputs.empty()) {
    throw Error(ExitCode::usage,
                fmt::format("predict takes images ('{}') or --split, not both", arguments.inputs[0]));
  }
}

}  // namespace trainer
