// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/trainer/commands.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/trained_recipe.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/config/scalar_values.h"
#include "core/data/images/transform.h"
#include "core/export/export_program.h"
#include "core/export/onnx_file.h"
#include "core/host/stop.h"
#include "core/recipe/assemble.h"
#include "core/run/int8_weights.h"
#include "core/run/stored_weights.h"
#include "core/storage/output_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Two batch sizes. A dimension that differs between their programs is the batch.
constexpr int64_t kFewSamples = 2, kMoreSamples = 3;

[[noreturn]] void refuse_export(const std::string& why) {
  throw Error(ExitCode::usage, "export: " + why);
}

/// The number of samples that the file fixes; nothing: any.
std::optional<int64_t> batch_of(const ExportArguments& wanted) {
  const bool is_fixed = wanted.reader == "hls4ml";
  if (wanted.batch == "any" && is_fixed)
    refuse_export("--for hls4ml needs a fixed batch; write --batch 1, or leave --batch out");
  if (wanted.batch.empty() && is_fixed) return 1;
  if (wanted.batch.empty() || wanted.batch == "any") return std::nullopt;
  int64_t samples = 0;
  const bool is_number = parse_whole(wanted.batch, samples) == std::errc();
  if (!is_number || samples < 1 || samples > kMaxDimension)
    refuse_export(fmt::format("--batch takes any, or a whole number from 1 to {}, got '{}'", kMaxDimension,
                              one_line(wanted.batch)));
  return samples;
}

/// The command line with the length of sequences as a key of the recipe. A length that the network cannot
/// have is refused as an option, not as a recipe.
Arguments with_length(const Arguments& arguments, const Recipe& recipe) {
  Arguments longer = arguments;
  const int64_t length = arguments.exported.length;
  if (length == 0) return longer;
  if (recipe.model.kind() != InputKind::tokens)
    refuse_export("--length is for networks that read tokens, and this one reads none; leave it out");
  longer.overrides.push_back(fmt::format("model.input=[{}]", length));
  try {
    forward_program(RunSpec(named_recipe(longer)), {.purpose = Purpose::predict});
  } catch (const Error& problem) {
    if (problem.code() != ExitCode::recipe) throw;
    refuse_export(fmt::format("--length {} does not fit the network, which has {}: {}", length,
                              recipe.model.input[0], problem.what()));
  }
  return longer;
}

OnnxOutput output_of(const RunSpec& spec, const ExportArguments& wanted) {
  if (wanted.output == "logits") return OnnxOutput::logits;
  const Task& task = task_of(spec);
  if (task.has_label_sets()) return OnnxOutput::sigmoid;
  if (task.classes(spec.output()) > 0) return OnnxOutput::softmax;
  refuse_export(
      fmt::format("--output probabilities needs classes, and {} has none; leave it out", task.name()));
}

std::optional<ByteScales> bytes_of(const Recipe& recipe, const ExportArguments& wanted) {
  if (wanted.input == "numbers") return std::nullopt;
  if (!wanted.reader.empty())
    refuse_export("--input bytes needs a Cast, which hls4ml 1.3.0 does not take; leave it out");
  if (recipe.model.kind() != InputKind::pixels)
    refuse_export("--input bytes is for networks that read images, and this one reads none; leave it out");
  PixelMap map = pixel_map(recipe.data.images.transform_list(Split::val), recipe.model.input[0]);
  return ByteScales{.scale = std::move(map.scale), .offset = std::move(map.offset)};
}

OnnxFormat format_of(const ExportArguments& wanted, const Int8Network* int8) {
  OnnxFormat format{.opset = wanted.opset == "23" ? 23 : 17,
                    .reader = wanted.reader.empty() ? OnnxReader::any : OnnxReader::hls4ml};
  if (int8 == nullptr) return format;
  format.dialect = wanted.dialect == "qdq" ? OnnxDialect::qdq : OnnxDialect::qonnx;
  format.weights = int8->weights;
  format.activations = int8->activations;
  return format;
}

/// The quantised network, if the file is to contain its rounding; else null.
std::shared_ptr<const Int8Network> rounded_network(const ExportArguments& wanted, const fs::path& weights) {
  std::shared_ptr<const Int8Network> int8 = int8_network_in(weights);
  const std::string file = one_line(weights.string());
  if (wanted.dialect.empty()) {
    if (int8 != nullptr)
      print_warning(
          fmt::format("{} has weights of 8 bits: the model computes with their values in f32, so its outputs "
                      "are not those in 8 bits; --dialect {} writes these",
                      file, wanted.reader.empty() ? "qdq" : "qonnx"));
    return nullptr;
  }
  if (int8 == nullptr)
    refuse_export(
        fmt::format("--dialect is for networks in 8 bits, and {} is in f32; leave it out, or name "
                    "a file of `trainer quantize` with --weights",
                    file));
  if (!wanted.reader.empty() && !int8->weights.per_tensor)
    throw Error(ExitCode::recipe,
                fmt::format("{}: hls4ml 1.3.0 takes one scale for all weights of a layer, and these have one "
                            "for each output; train with compression.quantize.weights: per_tensor",
                            file));
  return int8;
}

ExportedProgram exported(const RunSpec& spec, const ExportArguments& wanted,
                         const std::shared_ptr<const Int8Network>& int8) {
  if (spec.recipe().model.kind() == InputKind::text)
    fail_at(
        spec.recipe().origin_of("model.input_kind"),
        "a network of texts also reads where the padding ends, for which the ONNX model has no input; use "
        "`trainer predict`");
  const std::optional<int64_t> batch = batch_of(wanted);
  const auto program = [&](int64_t samples) {
    const RunSpec sized = spec.with_micro_batch(samples);
    return int8 == nullptr ? forward_program(sized, {.purpose = Purpose::predict})
                           : int8_program(sized, int8);
  };
  const Network& network = spec.recipe().model;
  std::map<std::string, std::string> layers;
  for (size_t i = 0; i < network.layers.size(); ++i)
    layers[network.layers[i]->origin.path] = network.layer_name(i);
  const ExportRequest request{.format = format_of(wanted, int8.get()),
                              .output = output_of(spec, wanted),
                              .bytes = bytes_of(spec.recipe(), wanted),
                              .layer_of = [&](const Origin& origin) { return layers.at(origin.path); }};
  const Program first = program(batch.value_or(kFewSamples));
  if (batch) return export_program(first, nullptr, request);
  const Program second = program(kMoreSamples);
  return export_program(first, &second, request);
}

/// The file beside the model is replaced first: if writing it fails, both are as they were before.
void write_model(const ExportedProgram& exported, const StoredWeights& weights, const fs::path& path,
                 const fs::path& read, StopSignals& signals) {
  const OnnxGraph& graph = exported.graph;
  const bool is_large = onnx_bytes(graph) >= kMostModelBytes;
  const OutputFile model(path, {read});
  const fs::path data_path = model.path().string() + ".data";
  const std::string data_name = data_path.filename().string();
  signals.watch_loop();
  const auto read_floats = [&](const std::string& name) { return weights.read(name); };
  const WeightSource source = [&](const std::string& name, const ByteSink& sink) {
    if (exported.weights.has(name))
      exported.weights.copy(name, read_floats, sink);
    else
      weights.copy(name, sink);
  };
  const auto watched = [&](const ByteSink& sink) {
    return [&signals, &sink](std::span<const std::byte> piece) {
      signals.throw_if_asked();  // here, so that no partial file remains
      sink(piece);
    };
  };
  model.write([&](const ByteSink& sink) {
    compose_onnx(graph, source, is_large ? data_name : "", watched(sink));
    if (!is_large) return;
    const OutputFile data(data_path, {read});
    data.write([&](const ByteSink& part) { compose_onnx_data(graph, source, watched(part)); });
  });
  print_note(model, fmt::format("{}: {} nodes, {}{}", one_line(path.string()), graph.nodes().size(),
                                human_bytes(onnx_bytes(graph)),
                                is_large ? fmt::format(", weights in {}", one_line(data_name)) : ""));
  std::error_code ignored;
  if (!is_large && fs::exists(data_path, ignored))
    print_warning(fmt::format("{}: the model does not read this file; delete it if an earlier export left it",
                              one_line(data_path.string())));
}

}  // namespace

int export_command(const Arguments& arguments) {
  const fs::path path = arguments.out;
  if (path.extension() != ".onnx")
    refuse_export(fmt::format("expected a file that ends in .onnx, got '{}'", one_line(arguments.out)));
  batch_of(arguments.exported);
  if (arguments.exported.dialect == "qdq" && !arguments.exported.reader.empty())
    refuse_export("--for hls4ml needs --dialect qonnx: hls4ml 1.3.0 takes no QuantizeLinear");
  StopSignals signals(StopSignals::kPass);
  const std::shared_ptr<const Recipe> named = named_recipe(arguments);
  const Arguments longer = with_length(arguments, *named);
  const std::shared_ptr<const Recipe> written = arguments.exported.length == 0 ? named : named_recipe(longer);
  // What has no form is refused before weights are looked for.
  exported(written, arguments.exported, nullptr);
  const TrainedRecipe trained = with_weights(written, longer);
  const RunSpec spec(trained.recipe);
  const ExportedProgram made =
      exported(spec, arguments.exported, rounded_network(arguments.exported, trained.files.model));
  const StoredWeights weights(forward_program(spec, {.purpose = Purpose::predict}),
                              spec.recipe().model.tied_weights(), trained.files.model);
  if (const std::string remark = weights.prefix_remark(); !remark.empty())
    print_warning(fmt::format("{}: {}", one_line(trained.files.model.string()), remark));
  write_model(made, weights, path, trained.files.model, signals);
  if (is_of_table(spec.recipe().model.kind()))
    print_warning(
        fmt::format("the model reads prepared rows: the metadata `table` of {} has their scales and "
                    "categories, and the unit of its outputs",
                    one_line(trained.files.model.string())));
  return 0;
}

}  // namespace trainer
