// SPDX-License-Identifier: Apache-2.0
#include "core/layers/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/config/messages.h"
#include "core/config/networks.h"
#include "core/config/templates.h"
#include "core/layers/head.h"

namespace trainer {
namespace {

/// Stands for the network's inputs among the sources of a layer.
constexpr size_t kInput = std::numeric_limits<size_t>::max();
/// Of the number of a layer's output.
constexpr size_t kMostDigits = 3;

struct InputRow {
  std::string name;  ///< in recipes
  InputKind kind;
  const char* tensor;
  DType dtype;
};

const std::vector<InputRow>& input_rows() {
  static const std::vector<InputRow> table = {
      {"pixels", InputKind::pixels, input_name::kImages, DType::f32},
      {"tokens", InputKind::tokens, input_name::kTokens, DType::i32},
      {"text", InputKind::text, input_name::kTokens, DType::i32},
      {"features", InputKind::features, input_name::kFeatures, DType::f32},
      {"series", InputKind::series, input_name::kFeatures, DType::f32}};
  return table;
}

const InputRow& input_row(const std::string& name) {
  return *std::ranges::find(input_rows(), name, &InputRow::name);
}

std::vector<std::string> names_of(const Registry<Layer>& registry) {
  std::vector<std::string> names;
  for (const Registered<Layer>& row : registry) names.push_back(row.name);
  return names;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

void Network::declare(Fields& fields) {
  fields
      .add("network", &file,
           "file with the keys `input` and `layers`, or the name of a network that comes with the program, "
           "such "
           "as resnet18")
      .path_where([](const std::string& text) { return !is_network_name(text); });
  fields
      .add("templates", &templates,
           "blocks of layers with arguments, `NAME: {arguments: {a: 1}, layers: [...]}`, or a network that "
           "defines them, as for network")
      .does_not_affect_results();
  fields
      .add("input", &input,
           "shape of one sample: [channels, height, width] of an image, [tokens] of a text, "
           "[columns] of numbers of a table, [rows, columns] of a window of it")
      .required()
      .dimension(0);
  std::vector<std::string> kinds;
  for (const InputRow& row : input_rows()) kinds.push_back(row.name);
  fields.add("input_kind", &input_kind, "type of the data that model.input describes").one_of(kinds);
  fields
      .add("categories", &categories,
           "of features and series: number of the table's columns of categories, (N, categories), those of a "
           "window's last row; layers read them as input:1 or, if model.input is [0], as input")
      .at_least(0)
      .at_most(1000000)
      .absent_as("0");
  fields.components("layers", layers, trainer::layers(), "the layers in order; `trainer layers` lists them")
      .required();
  fields
      .add("num_classes", &num_classes,
           "outputs of the head, the last linear or convolution layer; if initial_weights has a head of "
           "another "
           "size, this one is re-initialised")
      .dimension(1)
      .does_not_affect_results();
  fields.add("initial_weights", &initial_weights,
             "initial weights, matched by name: a .safetensors file, or the directory of a run or of one of "
             "its checkpoints");
  fields.add("replace", &replace,
             "names to re-initialise instead of loading them, such as \"head.*\"; * matches any text, ? one "
             "character");
  fields.add("freeze", &freeze,
             "names of parameters and running statistics to freeze, such as \"layer1.*\"; batch "
             "normalisation uses frozen statistics as in evaluation");
}

void Network::write_out(Value& model, const std::string& path, Reading& reading) {
  expand_templates(model, path, names_of(trainer::layers()), reading);
  set_num_classes(model, path, reading);
}

InputKind Network::kind() const {
  return input_row(input_kind).kind;
}

std::vector<TensorId> Network::declare_inputs(Program& program, int64_t samples) const {
  const InputRow& row = input_row(input_kind);
  Shape shape{samples};
  shape.insert(shape.end(), input.begin(), input.end());
  std::vector<TensorId> inputs;
  if (numel(shape) > 0) inputs.push_back(program.input(row.tensor, {shape, row.dtype}));
  if (categories > 0)
    inputs.push_back(program.input(input_name::kCategories, {{samples, categories}, DType::i32}));
  return inputs;
}

std::string Network::layer_name(size_t index) const {
  return layers[index]->name.empty() ? std::to_string(index) : layers[index]->name;
}

std::optional<size_t> Network::head() const {
  for (size_t i = layers.size(); i-- > 0;) {
    if (layers[i]->width_key() != nullptr) return i;
  }
  return std::nullopt;
}

std::map<std::string, std::string> Network::tied_weights() const {
  std::map<std::string, std::string> tied;
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string owner = layers[i]->weight_of();
    if (!owner.empty()) tied[layer_name(i) + ".weight"] = owner + ".weight";
  }
  return tied;
}

void Network::check(Diagnostics& diagnostics) const {
  constexpr size_t kMostSuggested = 20;  // a search among all names each
  const Positions places = positions();
  std::map<std::string, size_t> known = {{"input", kInput}};
  size_t suggested = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = *layers[i];
    for (const std::string& input_name : layer.inputs) {
      if (find_source(places, input_name, i)) continue;
      std::vector<std::string> names;
      if (suggested++ < kMostSuggested) {
        for (const auto& [name, index] : known) names.push_back(name);
      }
      const auto near = nearest(input_name, names);
      diagnostics.error(layer.origin_of("inputs"),
                        fmt::format("no earlier layer is named '{}'{}", shown(input_name),
                                    near ? fmt::format("; did you mean '{}'?", *near) : ""));
    }
    const size_t count = layer.inputs.empty() ? 1 : layer.inputs.size();
    if (count < layer.min_inputs()) {
      diagnostics.error(layer.origin,
                        fmt::format("{} needs at least {} inputs, got {}; name them with `inputs`",
                                    layer.chosen_as, layer.min_inputs(), count));
    } else if (count > layer.max_inputs()) {
      const std::string most =
          layer.max_inputs() == 1 ? "one input" : fmt::format("at most {} inputs", layer.max_inputs());
      diagnostics.error(layer.origin_of("inputs"),
                        fmt::format("{} takes {}, got {}", layer.chosen_as, most, count));
    }
    if (is_number(layer.name) || layer.name == "input") {
      diagnostics.error(layer.origin_of("name"),
                        fmt::format("'{}' is reserved for the input and for unnamed layers", layer.name));
    }
    if (!known.emplace(layer_name(i), i).second && !layer.name.empty() && layer.name != "input") {
      diagnostics.error(layer.origin_of("name"),
                        fmt::format("another layer is already named '{}'", layer.name));
    }
  }
}

Network::Positions Network::positions() const {
  Positions known;
  for (size_t i = 0; i < layers.size(); ++i) known[layer_name(i)].push_back(i);
  return known;
}

std::optional<Network::Source> Network::find_source(const Positions& known, const std::string& wanted,
                                                    size_t before) {
  const auto named = [&](const std::string& name) -> std::optional<size_t> {
    const auto found = known.find(name);
    if (found != known.end()) {
      const auto next = std::ranges::lower_bound(found->second, before);
      if (next != found->second.begin()) return *std::prev(next);
    }
    return name == "input" ? std::optional(kInput) : std::nullopt;
  };
  if (const auto layer = named(wanted)) return Source{.layer = *layer};
  const size_t colon = wanted.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  const std::string number = wanted.substr(colon + 1);
  const auto layer = named(wanted.substr(0, colon));
  if (!layer || !is_number(number) || number.size() > kMostDigits) return std::nullopt;
  return Source{.layer = *layer, .output = std::stoul(number)};
}

std::vector<Network::Source> Network::sources(const Positions& known, size_t index) const {
  if (layers[index]->inputs.empty()) return {{.layer = index == 0 ? kInput : index - 1}};
  std::vector<Source> found;
  for (const std::string& wanted : layers[index]->inputs) {
    found.push_back(find_source(known, wanted, index).value_or(Source{.layer = kInput}));
  }
  return found;
}

void Network::refuse_name(const std::string& tensor) const {
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string name = layer_name(i);
    if (tensor != name && !tensor.starts_with(name + ".")) continue;
    fail_at(layers[i]->origin_of("name"),
            fmt::format(
                "the layer's '{}' has the name of another tensor of the program; name the layer otherwise",
                tensor));
  }
}

std::vector<TensorId> Network::build(LayerContext context, const std::vector<TensorId>& x) const {
  const Positions known = positions();
  std::vector<std::vector<TensorId>> outputs;
  std::map<std::string, size_t> earlier;
  context.freeze = &freeze;
  context.earlier = &earlier;
  for (size_t i = 0; i < layers.size(); ++i) {
    std::vector<TensorId> inputs;
    for (const Source& source : sources(known, i)) {
      const bool reads_network_input = source.layer == kInput;
      const std::vector<TensorId>& made = reads_network_input ? x : outputs[source.layer];
      if (source.output >= made.size()) {
        fail_at(layers[i]->origin_of("inputs"),
                reads_network_input ? fmt::format("reads input {} of a network whose last is input {}",
                                                  source.output, made.size() - 1)
                                    : fmt::format("reads output {} of a layer whose last is output {}",
                                                  source.output, made.size() - 1));
      }
      inputs.push_back(made[source.output]);
    }
    context.name = layer_name(i);
    context.build.set_origin(layers[i]->origin);
    try {
      outputs.push_back(layers[i]->build(context, inputs));
    } catch (const TooLarge& problem) {
      fail_at(layers[i]->origin, problem.what());
    } catch (const NameClash& clash) {
      refuse_name(clash.name());
      throw;
    }
    earlier.emplace(context.name, i);
  }
  std::vector<TensorId> first;
  for (const std::vector<TensorId>& made : outputs) first.push_back(made.at(0));
  return first;
}

}  // namespace trainer
