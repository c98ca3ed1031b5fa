// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/rng.h"
#include "core/recipe/assemble.h"
#include "core/session/smaller_network.h"
#include "tests/storage/scratch_directory.h"

namespace trainer::test {

inline std::shared_ptr<const Recipe> recipe_of(const std::string& model,
                                               const std::vector<std::string>& overrides = {}) {
  return Recipe::parse("version: 1\ndata: {format: synthetic}\nmodel:\n" + model, "large.yaml", overrides);
}

inline std::string layers_text(const std::string& layers) {
  return "  input: [3, 9, 9]\n  layers: [" + layers + "]\n";
}

/// Values around those of a trained network: weights keep the size of activations, and no factor is zero.
inline std::vector<float> drawn_values(const Tensor& tensor) {
  const Shape& shape = tensor.spec.shape;
  RandomStream random(random_key(7, tensor.name));
  const bool is_factor =
      tensor.name.ends_with(".running_var") || (shape.size() == 1 && tensor.name.ends_with(".weight"));
  const double spread =
      shape.size() < 2 ? 0.1 : 2.4 / std::sqrt(static_cast<double>(numel(shape) / shape[0]));
  std::vector<float> values(static_cast<size_t>(numel(shape)));
  for (float& value : values) {
    const double drawn = 2.0 * random.next_uniform() - 1;
    value = static_cast<float>(is_factor ? 1 + 0.5 * drawn : spread * drawn);
  }
  return values;
}

inline const PruneRequest kHalf{.kept = {.share = 0.5, .multiple = 1}};

/// A network, its smaller one, and the recipe that was written.
struct Pruned {
  ScratchDirectory folder;
  RunSpec spec;
  SmallerNetwork smaller;
  std::shared_ptr<const Recipe> written;

  Pruned(std::shared_ptr<const Recipe> recipe, const PruneRequest& request)
      : spec(std::move(recipe)), smaller(choose_channels(spec, drawn_values, request)) {
    write_smaller(smaller, spec, drawn_values, {{"format", "pt"}}, folder / "out");
    written = Recipe::load((folder / "out/recipe.yaml").string(), {});
  }

  Shape shape_of(const std::string& tensor) const {
    const Program program = forward_program(RunSpec(written), {.purpose = Purpose::predict});
    return program.spec(program.find(tensor)).shape;
  }
};

}  // namespace trainer::test
