// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/session/smaller_network.h"
#include "tests/catch.h"
#include "tests/session/pruned.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using test::contents;
using test::drawn_values;
using test::error_text;
using test::kHalf;
using test::layers_text;
using test::Pruned;
using test::recipe_of;
using test::ScratchDirectory;

}  // namespace

TEST_CASE("a smaller network's recipe has the keys that its layers need") {
  const Pruned pruned(
      recipe_of(layers_text(
          "conv2d: {name: a, out_channels: 12, kernel_size: 1}, conv2d: {name: d, out_channels: 24, groups: "
          "12, "
          "kernel_size: 1}, squeeze_excite: {name: s, ratio: 4}, global_avg_pool2d, reshape: [24], linear: "
          "{name: head, out_features: 5}")),
      {.kept = {.share = 0.5, .multiple = 4}});
  const std::string text = contents(pruned.folder / "out/recipe.yaml");
  CHECK_THAT(text, ContainsSubstring("initial_weights: model.safetensors\n"));
  for (const char* line : {"out_channels: 8", "out_channels: 16", "groups: 8", "squeeze_channels: 4",
                           "ratio: null", "shape: [16]", "out_features: 5"}) {
    CHECK_THAT(text, ContainsSubstring(line));
  }
  CHECK(pruned.shape_of("d.weight") == Shape{16, 1, 1, 1});
  CHECK(pruned.shape_of("s.fc1.weight") == Shape{4, 16, 1, 1});
  CHECK(pruned.shape_of("head.weight") == Shape{5, 16});
}

TEST_CASE("a smaller network's recipe begins another run, with its own weights") {
  ScratchDirectory elsewhere;
  const Pruned pruned(
      recipe_of(
          layers_text("conv2d: {name: a, out_channels: 4, kernel_size: 1}, flatten, linear: 5"),
          {"run.output_dir=" + (elsewhere / "run").string(), "run.resume=" + (elsewhere / "w").string(),
           "model.initial_weights=" + (elsewhere / "first.safetensors").string(), "model.replace=[\"a.*\"]"}),
      kHalf);
  const Recipe& written = *pruned.written;
  CHECK(written.output_directory().starts_with("runs/large-"));
  CHECK_FALSE(written.run.resume_path());
  CHECK(written.model.replace.empty());
  REQUIRE(written.model.initial_weights);
  CHECK(fs::path(written.model.initial_weights->resolved) == pruned.folder / "out/model.safetensors");
}

TEST_CASE("channels of excepted layers stay; those that they read may go") {
  const auto recipe =
      recipe_of(layers_text("conv2d: {name: a, out_channels: 8, kernel_size: 1}, conv2d: {name: b, "
                            "out_channels: 8, kernel_size: 1}, batch_norm: "
                            "{name: n}, conv2d: {name: c, out_channels: 8, kernel_size: 1}, flatten, linear: "
                            "{name: head, out_features: 5}"));
  const auto shapes = [&](std::vector<std::string> except) {
    PruneRequest request = kHalf;
    request.except = std::move(except);
    const Pruned pruned(recipe, request);
    return std::vector<Shape>{pruned.shape_of("a.bias"), pruned.shape_of("b.bias"),
                              pruned.shape_of("c.bias")};
  };
  CHECK(shapes({}) == std::vector<Shape>{{4}, {4}, {4}});
  CHECK(shapes({"b"}) == std::vector<Shape>{{4}, {8}, {4}});
  CHECK(shapes({"n.running_*"}) == std::vector<Shape>{{4}, {8}, {4}});
  CHECK(shapes({"a.weight", "[bd].bias"}) == std::vector<Shape>{{8}, {8}, {4}});
}

TEST_CASE("what cannot be removed is an error that says why") {
  const auto choose = [](const std::string& layers, const PruneRequest& request) {
    return [layers, request] {
      choose_channels(RunSpec(recipe_of(layers_text(layers))), drawn_values, request);
    };
  };
  const std::string two =
      "conv2d: {name: a, out_channels: 6, kernel_size: 1}, flatten, linear: {name: head, out_features: 5}";
  CHECK_THAT(error_text(ExitCode::usage, choose(two, {.kept = {}, .except = {"aa*"}})),
             ContainsSubstring("--except 'aa*' matches no layer"));
  CHECK_THAT(
      error_text(ExitCode::recipe, choose(two, {.kept = {}})),
      ContainsSubstring("there is no channel to remove: --keep, rounded up to a multiple of 8, keeps all"));
  CHECK_THAT(error_text(ExitCode::recipe, choose(two, {.kept = {}, .by = Importance::gamma})),
             ContainsSubstring("use --by l1"));
  CHECK_THAT(error_text(ExitCode::recipe, choose("flatten, linear: 5", kHalf)),
             ContainsSubstring("the network's output"));
  CHECK_THAT(error_text(ExitCode::recipe, choose("flatten", kHalf)),
             ContainsSubstring("no layer has weights"));
  const std::string coupled =
      "conv2d: {name: g, out_channels: 4, kernel_size: 1}, conv2d: {name: h, out_channels: 2, groups: 2, "
      "kernel_size: 1}, flatten, linear: 5";
  CHECK_THAT(error_text(ExitCode::recipe, choose(coupled, {.kept = {}, .except = {"g"}})),
             ContainsSubstring("all its channels are coupled"));
}

TEST_CASE("by gamma, channels without batch normalisation stay and are named") {
  const auto recipe =
      recipe_of(layers_text("conv2d: {name: a, out_channels: 8, kernel_size: 1}, batch_norm, conv2d: {name: "
                            "b, out_channels: 8, kernel_size: 1}, "
                            "flatten, linear: {name: head, out_features: 5}"));
  const Pruned pruned(recipe, {.kept = {.share = 0.5, .multiple = 1}, .by = Importance::gamma});
  CHECK(pruned.shape_of("a.bias") == Shape{4});
  CHECK(pruned.shape_of("b.bias") == Shape{8});
  const auto has_reason = [](const ChannelGroup& group) {
    return group.stays == "no batch normalisation, which --by gamma needs";
  };
  CHECK(std::ranges::count_if(pruned.smaller.channels.groups, has_reason) == 1);
}

TEST_CASE("a smaller network is written into an absent or empty directory, whole or not at all") {
  const RunSpec spec(
      recipe_of(layers_text("conv2d: {name: a, out_channels: 8, kernel_size: 1}, flatten, linear: 5")));
  const SmallerNetwork smaller = choose_channels(spec, drawn_values, kHalf);
  ScratchDirectory folder;
  fs::create_directory(folder / "empty");
  write_smaller(smaller, spec, drawn_values, {}, folder / "empty");
  CHECK(folder.names() == std::set<std::string>{"empty"});
  CHECK_THAT(
      error_text(ExitCode::usage, [&] { write_smaller(smaller, spec, drawn_values, {}, folder / "empty"); }),
      ContainsSubstring("not an empty directory"));
  const TensorValues fails = [](const Tensor&) -> std::vector<float> {
    throw std::runtime_error("unreadable");
  };
  CHECK_THROWS_AS(write_smaller(smaller, spec, fails, {}, folder / "below/new/"), std::runtime_error);
  CHECK(folder.names() == std::set<std::string>{"below", "empty"});
  CHECK(fs::is_empty(folder / "below"));
}

TEST_CASE("a smaller network is written where a link leads, which must be an empty directory") {
  const RunSpec spec(
      recipe_of(layers_text("conv2d: {name: a, out_channels: 8, kernel_size: 1}, flatten, linear: 5")));
  const SmallerNetwork smaller = choose_channels(spec, drawn_values, kHalf);
  ScratchDirectory folder;
  fs::create_directories(folder / "elsewhere/empty");
  fs::create_directory_symlink("elsewhere/empty", folder / "link");
  write_smaller(smaller, spec, drawn_values, {}, folder / "link");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(fs::exists(folder / "elsewhere/empty/model.safetensors"));
  fs::create_directory_symlink("nowhere", folder / "broken");
  for (const fs::path& used : {folder / "link", folder / "broken"}) {
    CHECK_THAT(error_text(ExitCode::usage, [&] { write_smaller(smaller, spec, drawn_values, {}, used); }),
               ContainsSubstring("not an empty directory"));
  }
  CHECK_THAT(error_text(ExitCode::usage, [&] { write_smaller(smaller, spec, drawn_values, {}, ""); }),
             ContainsSubstring("--out is empty"));
  CHECK(folder.names() == std::set<std::string>{"broken", "elsewhere", "link"});
}

TEST_CASE("an error of the smaller recipe names the file as it would be called") {
  const RunSpec spec(
      recipe_of(layers_text("conv2d: {name: a, out_channels: 8, kernel_size: 1}, flatten, linear: 5")));
  SmallerNetwork smaller = choose_channels(spec, drawn_values, kHalf);
  const TensorId weight = smaller.before.find("a.weight");
  for (const size_t channel : smaller.channels.of[static_cast<size_t>(weight)][0])
    smaller.removed[channel] = true;  // all: no layer has no channels
  ScratchDirectory folder;
  const std::string text =
      error_text(ExitCode::recipe, [&] { write_smaller(smaller, spec, drawn_values, {}, folder / "out"); });
  CHECK_THAT(text, ContainsSubstring("the smaller network is not possible: " +
                                     (folder / "out/recipe.yaml:").string()));
  CHECK(folder.names().empty());
}

TEST_CASE("a size that a layer did not get is an error at the layer, and nothing is written") {
  const RunSpec spec(
      recipe_of(layers_text("conv2d: {name: a, out_channels: 8, kernel_size: 1}, flatten, linear: 5")));
  SmallerNetwork smaller = choose_channels(spec, drawn_values, kHalf);
  const TensorId images = smaller.before.find(input_name::kImages);
  smaller.removed[smaller.channels.of[static_cast<size_t>(images)][2][0]] =
      true;  // a row of pixels: no layer has a key
  ScratchDirectory folder;
  CHECK_THAT(
      error_text(ExitCode::recipe, [&] { write_smaller(smaller, spec, drawn_values, {}, folder / "out"); }),
      ContainsSubstring("model.layers[0].conv2d: no value of this layer's keys gives the size"));
  CHECK(folder.names().empty());
}

TEST_CASE("every layer with a width has a key for another one") {
  const Shape shape{1, 8, 1, 1};
  const LayerSizes sizes{.input = shape, .output = shape, .parameters = {{"weight", {8, 8, 1, 1}}}};
  for (const Registered<Layer>& row : layers()) {
    const std::unique_ptr<Layer> layer = row.make();
    if (layer->width_key() == nullptr) continue;
    INFO(row.name);
    CHECK(layer->keys_for(sizes, sizes).contains(layer->width_key()));
  }
}

}  // namespace trainer
