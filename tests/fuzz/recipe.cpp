// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/recipe.h"

#include <cstdlib>

#include "core/recipe/assemble.h"

namespace trainer {
namespace {

/// The recipe of a text, or nothing if it is refused as one (exit 78).
std::shared_ptr<const Recipe> read(const std::string& text) {
  try {
    return Recipe::parse(text, "recipe.yaml", {});
  } catch (const Error& error) {
    if (error.code() != ExitCode::recipe) std::abort();
  }
  return nullptr;
}

/// Layers that do not fit together are found only when they are built.
void build(const std::shared_ptr<const Recipe>& recipe) {
  try {
    forward_program(recipe);
  } catch (const Error& error) {
    if (error.code() != ExitCode::recipe) std::abort();
  }
}

void try_recipe(const std::string& text) {
  const std::shared_ptr<const Recipe> recipe = read(text);
  if (!recipe) return;
  build(recipe);
  // The written recipe is complete: read again, it is written the same. Its identity may differ, since paths
  // are absolute then.
  const std::string written = recipe->to_yaml(false);
  const std::shared_ptr<const Recipe> again = read(written);
  if (!again || again->to_yaml(false) != written) std::abort();
}

}  // namespace
}  // namespace trainer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  trainer::try_recipe({reinterpret_cast<const char*>(data), size});
  return 0;
}
