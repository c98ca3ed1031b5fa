// SPDX-License-Identifier: Apache-2.0
#include "core/run/weight_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "core/recipe/assemble.h"
#include "core/recipe/initial_weights.h"
#include "core/run/weights.h"
#include "tests/catch.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr const char* kClassifier = R"(version: 1
model:
  input: [1, 2, 2]
  layers: [flatten, linear: {name: body.fc, out_features: 3}, relu, linear: {name: head, out_features: 2}]
data: {format: synthetic}
)";
constexpr const char* kTiedNetwork = R"(version: 1
model:
  input: [4]
  input_kind: tokens
  layers:
    - embedding: {name: transformer.wte, vocab_size: 5, features: 3}
    - linear: {name: transformer.fc, out_features: 3}
    - linear: {name: lm_head, out_features: 5, bias: false, weight_of: transformer.wte}
data: {format: text, train: none.txt, val: null}
)";

using StoredShapes = std::map<std::string, Shape>;
const StoredShapes kOfClassifier = {
    {"body.fc.weight", {3, 4}}, {"body.fc.bias", {3}}, {"head.weight", {2, 3}}, {"head.bias", {2}}};
const StoredShapes kOfTied = {
    {"transformer.wte.weight", {5, 3}}, {"transformer.fc.weight", {3, 3}}, {"transformer.fc.bias", {3}}};

/// A file of these tensors. All elements of one are its name's length, or those of `values`.
class WeightsFile {
 public:
  explicit WeightsFile(const StoredShapes& shapes, const std::map<std::string, float>& values = {}) {
    std::vector<StoredTensor> stored;
    for (const auto& [name, shape] : shapes) stored.push_back({.name = name, .shape = shape});
    write_safetensors(path(), stored, {}, [&](size_t i, const ByteSink& sink) {
      const auto value = values.find(stored[i].name);
      const std::vector<float> all(static_cast<size_t>(numel(stored[i].shape)),
                                   value == values.end() ? 1.0f : value->second);
      sink(std::as_bytes(std::span(all)));
    });
  }
  std::filesystem::path path() const { return scratch_ / "weights.safetensors"; }

 private:
  test::ScratchDirectory scratch_;
};

StoredShapes with_names(const StoredShapes& shapes,
                        const std::function<std::string(const std::string&)>& rename) {
  StoredShapes result;
  for (const auto& [name, shape] : shapes) result[rename(name)] = shape;
  return result;
}

void check_fit(const std::string& recipe, const WeightsFile& file,
               const std::vector<std::string>& overrides = {}) {
  const auto read = Recipe::parse(recipe, "r.yaml", overrides);
  check_weights(forward_program(read).tensors, file.path(), replaced_by(*read));
}

std::string misfit(const std::string& recipe, const WeightsFile& file,
                   const std::vector<std::string>& overrides = {}) {
  return test::error_text(ExitCode::data, [&] { check_fit(recipe, file, overrides); });
}

}  // namespace

TEST_CASE("prefixes of PyTorch's wrappers are removed where names match only without them") {
  for (const std::string prefix : {"module.", "model.", "_orig_mod.", "module._orig_mod.", "model.module."}) {
    INFO(prefix);
    const WeightsFile file(with_names(kOfClassifier, [&](const std::string& name) { return prefix + name; }));
    CHECK_NOTHROW(check_fit(kClassifier, file));
    const auto recipe = Recipe::parse(kClassifier, "r.yaml", {});
    const Program program = forward_program(recipe);
    std::vector<const Tensor*> weights;
    for (const Tensor& tensor : program.tensors) {
      if (is_weight(tensor)) weights.push_back(&tensor);
    }
    const SafetensorsFile stored(file.path());
    CHECK(match_names(weights, {}, stored).prefixes == std::vector<std::string>{prefix});
  }
  // A network whose own names begin so keeps them.
  CHECK_NOTHROW(check_fit(kClassifier,
                          WeightsFile(with_names(kOfClassifier,
                                                 [](const std::string& name) {
                                                   return name.starts_with("head") ? "module." + name
                                                                                   : "model." + name;
                                                 })),
                          {"model.layers[1].linear.name=model.body.fc"}));
  StoredShapes both = kOfClassifier;
  both["module.head.bias"] = {2};
  CHECK_THAT(misfit(kClassifier, WeightsFile(both)),
             ContainsSubstring("the network has no 'module.head.bias'"));
  CHECK_THAT(misfit(kClassifier,
                    WeightsFile(with_names(kOfClassifier, [](const auto& name) { return "net." + name; }))),
             ContainsSubstring("the file has no 'head.weight' of shape 2x3"));
}

TEST_CASE("a tied weight may have either layer's name, or both if they are equal") {
  StoredShapes both = kOfTied, head_only = kOfTied;
  both["lm_head.weight"] = {5, 3};
  head_only.erase("transformer.wte.weight");
  head_only["lm_head.weight"] = {5, 3};
  CHECK_NOTHROW(check_fit(kTiedNetwork, WeightsFile(kOfTied)));
  CHECK_NOTHROW(check_fit(kTiedNetwork, WeightsFile(both)));
  CHECK_NOTHROW(check_fit(kTiedNetwork, WeightsFile(head_only)));
  CHECK_NOTHROW(
      check_fit(kTiedNetwork, WeightsFile(both, {{"lm_head.weight", NAN}, {"transformer.wte.weight", NAN}})));
  CHECK_THAT(misfit(kTiedNetwork, WeightsFile(both, {{"lm_head.weight", 2}})),
             ContainsSubstring("its 'lm_head.weight' differs from 'transformer.wte.weight'"));
  both["lm_head.weight"] = {6, 3};
  CHECK_THAT(misfit(kTiedNetwork, WeightsFile(both)),
             ContainsSubstring("the network has no 'lm_head.weight'"));
  // OpenAI's names, in a wrapper.
  StoredShapes short_names =
      with_names(kOfTied, [](const std::string& name) { return "module." + name.substr(12); });
  short_names["module.lm_head.weight"] = {5, 3};
  CHECK_NOTHROW(check_fit(kTiedNetwork, WeightsFile(short_names)));
}

TEST_CASE("masks and counters that PyTorch stores beside weights are left in the file, and nothing else") {
  StoredShapes more = kOfTied;
  more["transformer.h.0.attn.bias"] = {1, 1, 4, 4};
  more["transformer.h.0.attn.masked_bias"] = {};
  more["model.layers.0.self_attn.rotary_emb.inv_freq"] = {2};
  more["embeddings.position_ids"] = {1, 4};
  more["bn.num_batches_tracked"] = {};
  CHECK_NOTHROW(check_fit(kTiedNetwork, WeightsFile(more)));
  more["transformer.h.0.attn.bias"] = {4};  // of a linear layer
  CHECK_THAT(misfit(kTiedNetwork, WeightsFile(more)),
             ContainsSubstring("the network has no 'transformer.h.0.attn.bias'"));
}

TEST_CASE("with num_classes a head of another size is re-initialised, and nothing else") {
  const std::vector<std::string> seven = {"model.num_classes=7"};
  CHECK_NOTHROW(check_fit(kClassifier, WeightsFile(kOfClassifier), seven));
  StoredShapes headless = kOfClassifier;
  headless.erase("head.weight"), headless.erase("head.bias");
  CHECK_NOTHROW(check_fit(kClassifier, WeightsFile(headless), seven));
  CHECK_THAT(misfit(kClassifier, WeightsFile(headless)), ContainsSubstring("the file has no 'head.bias'"));
  StoredShapes wide = kOfClassifier;
  wide["body.fc.weight"] = {3, 5};
  CHECK_THAT(misfit(kClassifier, WeightsFile(wide), seven),
             ContainsSubstring("'body.fc.weight' has shape 3x5, the network needs 3x4") &&
                 !ContainsSubstring("head"));
}

TEST_CASE("of many differences the first of each kind are listed, and their numbers") {
  StoredShapes other;
  for (int i = 0; i < 40; ++i) other[fmt::format("layer{:02}.weight", i)] = {3};
  other["body.fc.bias"] = {4};
  const std::string text = misfit(kClassifier, WeightsFile(other));
  CHECK_THAT(text, ContainsSubstring("the file has no 'head.weight' of shape 2x3") &&
                       ContainsSubstring("'body.fc.bias' has shape 4, the network needs 3") &&
                       ContainsSubstring("the network has no 'layer00.weight'") &&
                       ContainsSubstring("\n  in all 3 missing, 1 of another shape, 40 unexpected"));
  CHECK(std::ranges::count(text, '\n') < 14);
}

}  // namespace trainer
